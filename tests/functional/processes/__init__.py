"""Children, signals, leftovers: processes without knowledge of ranks."""
