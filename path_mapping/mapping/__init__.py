"""Reads and checks the mapping file. Pure."""
