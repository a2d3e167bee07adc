"""How numbers are said to people."""
