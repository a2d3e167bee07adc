"""`ma_boot.training`."""
