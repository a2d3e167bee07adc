"""Faults that a proxy injects between a transfer and a server that we did not write."""
