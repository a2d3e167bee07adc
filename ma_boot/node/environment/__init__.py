"""The environment and the command of the training."""
