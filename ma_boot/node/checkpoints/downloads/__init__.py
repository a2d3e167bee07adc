"""Brings the files of published checkpoints to the disk."""
