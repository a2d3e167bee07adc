"""Servers, transfers and jobs that fail, are stopped or are killed."""
