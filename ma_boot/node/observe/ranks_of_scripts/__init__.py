"""Observers of a command that starts the ranks of its node itself, and of the end of node 0."""
