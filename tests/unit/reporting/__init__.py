"""Console, journal, hints, page and verdict."""
