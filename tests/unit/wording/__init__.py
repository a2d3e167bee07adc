"""Numbers and messages as text."""
