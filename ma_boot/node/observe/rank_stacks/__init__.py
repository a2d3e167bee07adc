"""Stacks of ranks: read, sampled, exchanged between nodes, folded, and the suspect by them."""
