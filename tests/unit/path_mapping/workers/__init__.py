"""Retries, their waits, and the rate limit."""
