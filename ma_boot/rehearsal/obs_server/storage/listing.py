"""Listings of a bucket, a page at a time, from its sorted keys. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import List, Sequence, Tuple

MAX_KEYS = 1000  # OBS API reference, "Listing Objects in a Bucket"
_LAST = chr(0x10FFFF)  # sorts after every character of a key


@dataclass(frozen=True)
class ListingPage:
    """One page of a listing; `next_marker` is empty on the last one."""

    keys: Tuple[str, ...]
    prefixes: Tuple[str, ...]
    next_marker: str


def list_page(keys: Sequence[str], prefix: str, marker: str, delimiter: str, limit: int) -> ListingPage:
    """The first `limit` of the sorted keys that come after the marker and begin with the prefix.

    Keys with the delimiter after the prefix are rolled up into one common prefix each. A common prefix that
    the marker names, or points into, has already been listed.
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
            at = bisect_left(keys, common + _LAST, at)
            continue
        if len(found) + len(prefixes) >= limit:
            return ListingPage(tuple(found), tuple(prefixes), last)
        last = common or key
        if common:
            prefixes.append(common)
            at = bisect_left(keys, common + _LAST, at)
        else:
            found.append(key)
            at += 1
    return ListingPage(tuple(found), tuple(prefixes), "")
