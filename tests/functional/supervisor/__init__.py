"""Processes that are started, watched and stopped, and their output."""
