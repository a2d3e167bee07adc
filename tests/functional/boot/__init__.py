"""One node from its start to the exit code."""
