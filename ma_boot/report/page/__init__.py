"""A job's `Timeline` as one self-contained HTML page."""
