"""Signals, threads and child processes, before any knowledge of ranks."""
