"""Detection of hangs: life and steps of ranks, and the decision to look at their stacks."""
