"""The command line: one module per command; each parses, refuses and helps."""
