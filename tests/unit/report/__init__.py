"""Console, journal, hints, page and exit report."""
