"""What ModelArts and the machine tell a node, and what they expect of it."""
