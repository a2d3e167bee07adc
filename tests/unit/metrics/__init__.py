"""Metrics: what is sampled, what is read from lines, which rank is slow."""
