"""Input from the platform: its variables and files, and rank tables."""
