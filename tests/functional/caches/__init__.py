"""Compile caches in a store, and in jobs."""
