"""Images that are built, checked, pushed and run by a container engine."""
