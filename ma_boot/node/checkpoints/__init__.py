"""Checkpoints in OBS: one is complete when every saver has published its part."""
