"""Injects the faults of ranks and nodes into a running job, from outside."""
