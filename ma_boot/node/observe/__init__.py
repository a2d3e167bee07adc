"""Observers of a run: hangs, metrics, MindCluster's resets, other nodes.

The supervisor never imports them.
"""
