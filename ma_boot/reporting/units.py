"""Durations and sizes for people, the same in every language. Pure."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """`0.4 s`, `12.3 s`, `4:05 min` or `2:04:05 h`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


def size(count: float) -> str:
    """`3.1 MB`: bytes in decimal units."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.5 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} PB"
