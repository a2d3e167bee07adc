"""Hangs: stacks folded, who waits for whom, and the suspect."""
