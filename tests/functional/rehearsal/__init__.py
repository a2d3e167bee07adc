"""Jobs of several nodes on this machine."""
