"""Object stores: OBS, or a directory in its place, and the HTTP requests to OBS."""
