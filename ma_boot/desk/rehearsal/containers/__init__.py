"""Nodes as containers of the job's own image."""
