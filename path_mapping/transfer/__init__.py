"""Schedules the work of a transfer: files, units, rounds."""
