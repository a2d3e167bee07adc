"""Starts, watches and ends the processes of a launch plan."""
