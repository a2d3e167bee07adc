"""Whole pages and reports, compared with kept ones."""
