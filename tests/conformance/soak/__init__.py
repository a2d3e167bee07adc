"""A soak: random faults, kills, renewals and rotations, beside a pure model of what must be there."""
