"""Reports of a run: console output, journal, root cause, timeline and page."""
