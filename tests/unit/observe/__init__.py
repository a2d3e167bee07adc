"""Watching a run: stacks, suspects, what is sampled."""
