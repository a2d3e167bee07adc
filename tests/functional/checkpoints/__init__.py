"""Checkpoints: published, restored, removed."""
