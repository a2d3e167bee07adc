"""Carries out units, in threads and processes."""
