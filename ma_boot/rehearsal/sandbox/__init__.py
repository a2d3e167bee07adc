"""A node in a mount namespace of its own, by bubblewrap."""
