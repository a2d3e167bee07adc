"""Whole programs, as users start them."""
