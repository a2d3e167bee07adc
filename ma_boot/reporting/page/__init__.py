"""A `Timeline` as one self-contained HTML page."""
