"""Metrics of a node: samples of ranks, cards and the machine, their events, and the server for Prometheus."""
