"""Moves files between local paths and OBS by a path mapping; knows nothing of ma_boot."""
