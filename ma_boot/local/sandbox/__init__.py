"""A node in a mount namespace of its own, by bubblewrap: the platform's paths without a container engine."""
