"""Ranks that a command starts itself, and the processes that it leaves."""
