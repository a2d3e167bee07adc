"""Runs in the container: the boot of one node and all that it uses."""
