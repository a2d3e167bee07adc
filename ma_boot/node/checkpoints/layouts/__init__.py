"""Layouts: the names and formats of the files of checkpoints, by framework and by pattern."""
