"""Faults on demand in a rehearsal: ordered in words, made from outside, each with a verdict at the end."""
