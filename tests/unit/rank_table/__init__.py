"""Rank tables."""
