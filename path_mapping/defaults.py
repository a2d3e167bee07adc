"""Defaults that callers show in their help; loads nothing."""

from __future__ import annotations

# Seconds without any progress, after which a request has failed.
STALL_SECONDS = 60.0
