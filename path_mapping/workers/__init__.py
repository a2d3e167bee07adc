"""Runs the requests of a transfer in event loops and processes, with retries and a rate limit."""
