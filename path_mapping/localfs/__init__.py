"""Safe reads and writes on the local disk."""
