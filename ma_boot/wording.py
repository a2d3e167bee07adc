"""How numbers are said to people, in every message and on every page. Pure."""

from __future__ import annotations

from typing import Iterable, List, Sequence


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


def counted(count: int, one: str, several: str = "") -> str:
    """`1 file`, `2 files`; `several` is the plural of a word that takes no `s`."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def ranges(numbers: Iterable[int], dash: str = "-") -> str:
    """`0-3, 8, 10-15` for whole numbers in any order; empty for none."""
    spans: List[List[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}{dash}{high}" for low, high in spans)


def ranks_text(ranks: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-6, 8`."""
    known = set(ranks)
    return f"rank{'s' if len(known) > 1 else ''} {ranges(known)}"


def columns(rows: Sequence[Sequence[str]]) -> List[str]:
    """A line for each row, with its cells padded to the widths of their columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
