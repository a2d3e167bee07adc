"""Whole pages and reports, compared with those that are kept here."""
