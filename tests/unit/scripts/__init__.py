"""Script ranks: their numbers, ends and leftovers, as values."""
