"""Requests for checkpoints to the training, at the same step on all nodes (`should_save`)."""
