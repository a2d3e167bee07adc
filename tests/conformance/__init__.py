"""The embedded OBS and radosgw, asked the same by several clients."""
