"""Functions and values, without an effect beyond a temporary directory."""
