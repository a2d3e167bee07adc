"""Checkpoint sets: published, restored, removed."""
