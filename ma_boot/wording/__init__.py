"""How numbers are said to people, in every message and on every page. Pure."""

from ma_boot.wording.numbers import counted, duration, ranges, ranks_text, size

__all__ = ["counted", "duration", "ranges", "ranks_text", "size"]
