"""Breaks a room's code on purpose, a place at a time, and looks whether its tests notice (`make mutants`)."""
