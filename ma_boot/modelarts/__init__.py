"""What the platform and the machine tell a node, and what they want of it."""
