"""The environment and the command of a training."""
