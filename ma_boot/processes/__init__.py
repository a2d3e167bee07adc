"""Signals, threads and child processes; knows nothing of ranks."""
