"""Checkpoints by their names: layouts, patterns, the structure of files."""
