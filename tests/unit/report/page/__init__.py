"""The page: what it says, how it is laid out, and what it costs."""
