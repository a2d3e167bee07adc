"""Stores, their wire, `path_mapping.file` and periodic uploads."""
