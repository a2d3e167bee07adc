"""What would be moved, and what is known from earlier runs."""
