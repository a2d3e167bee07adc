"""One node's boot, from start to exit code: the story."""
