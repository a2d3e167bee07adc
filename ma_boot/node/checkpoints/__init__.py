"""Checkpoint sets in OBS: a step counts when every saver has published its part."""
