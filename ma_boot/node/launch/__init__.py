"""Launch plan of a node: its processes with the variables of their rendezvous. Pure."""
