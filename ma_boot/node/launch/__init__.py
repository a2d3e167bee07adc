"""Plans the processes of a node from job, ranks and command: the variables of each rendezvous. Pure."""
