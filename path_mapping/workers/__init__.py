"""Runs the requests of a transfer in threads and processes, with retries and a rate limit."""
