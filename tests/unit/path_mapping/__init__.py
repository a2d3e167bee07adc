"""Mappings, plans, parts and marks."""
