"""Commands beside `run`, help and completion."""
