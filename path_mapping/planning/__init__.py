"""Plans a transfer before the first byte."""
