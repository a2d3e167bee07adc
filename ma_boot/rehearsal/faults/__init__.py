"""Faults on demand: their grammar, what is expected of each, and what makes them happen."""
