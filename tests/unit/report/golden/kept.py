"""Texts that are kept as they were at their last review."""

from __future__ import annotations

import os
from pathlib import Path


def golden(kept: Path, now: str) -> str:
    """The kept text; `MABOOT_GOLDEN=write` keeps this one first: look at the difference before it is committed."""
    if os.environ.get("MABOOT_GOLDEN") == "write":
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(now, encoding="utf-8")
    return kept.read_text(encoding="utf-8")
