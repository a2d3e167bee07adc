"""Plans of transfers, and records of earlier runs."""
