"""Decides what moves, before the first byte."""
