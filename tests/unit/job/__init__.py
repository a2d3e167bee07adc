"""The job file, its rules, its request: all without a network."""
