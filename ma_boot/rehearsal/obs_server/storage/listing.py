"""One page of a bucket's listing, from its sorted keys. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import List, Sequence, Tuple

PAGE = 1000  # names in one answer, the most
LAST = chr(0x10FFFF)  # sorts after what may follow in a key


@dataclass(frozen=True)
class Page:
    """What one answer lists, and the marker of the next one (empty: there is none)."""

    keys: Tuple[str, ...]
    prefixes: Tuple[str, ...]
    next_marker: str


def page(keys: Sequence[str], prefix: str, marker: str, delimiter: str, limit: int) -> Page:
    """The first `limit` keys after the marker that begin with the prefix.

    Keys that have the delimiter after the prefix count as one common prefix; one that the marker names, or
    points into, was listed before.
    """
    found: List[str] = []
    prefixes: List[str] = []
    last = ""
    at = max(bisect_left(keys, prefix), bisect_right(keys, marker))
    while at < len(keys) and keys[at].startswith(prefix):
        key, common = keys[at], ""
        if delimiter:
            end = key.find(delimiter, len(prefix))
            common = key[: end + len(delimiter)] if end >= 0 else ""
        if common and marker.startswith(common):
            at = bisect_left(keys, common + LAST, at)
            continue
        if len(found) + len(prefixes) >= limit:
            return Page(tuple(found), tuple(prefixes), last)
        last = common or key
        if common:
            prefixes.append(common)
            at = bisect_left(keys, common + LAST, at)
        else:
            found.append(key)
            at += 1
    return Page(tuple(found), tuple(prefixes), "")
