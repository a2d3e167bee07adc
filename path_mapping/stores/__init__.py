"""Object stores, and the wire to them."""
