"""Compile caches: options, keys and variables."""
