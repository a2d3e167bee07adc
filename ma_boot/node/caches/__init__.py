"""Compile caches: restored before the training, published for later starts of the same code."""
