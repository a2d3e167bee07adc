"""The environment of the training, in whole boots, and beside conda itself."""
