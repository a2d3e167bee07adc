"""What the ETag of an object that was stored in parts tells of them. Pure."""

from __future__ import annotations

import math
import re
from typing import List, Tuple

_MD5_OF_PARTS = re.compile(r"([0-9a-f]{32})-([1-9]\d{0,4})")
_MIB = 1 << 20
# The defaults of tools and SDKs for S3 and OBS, in MiB; beside them all powers of two up to 5 GiB.
_USUAL_PARTS = (5, 6, 7, 9, 10, 12, 15, 20, 24, 25, 48, 50, 80, 96, 100, 120, 192, 200, 250, 500, 1000, 5120)


def count_of_parts(etag: str) -> int:
    """The number of parts of the object with this ETag; 0 if it was not stored in parts."""
    found = _MD5_OF_PARTS.fullmatch(etag.strip('"').lower())
    return int(found[2]) if found else 0


def part_sizes_of(etag: str, size: int) -> Tuple[int, ...]:
    """The sizes in bytes that the parts of an object of `size` bytes may have; none if it has no parts."""
    count = count_of_parts(etag)
    return tuple(likely_part_sizes(size, count)) if count else ()


def likely_part_sizes(size: int, parts: int) -> List[int]:
    """The part sizes in bytes that cut so many bytes into this number of parts, the usual ones first.

    Then the smallest one, and that rounded up to MiB: some tools choose them by the size of the file.
    """
    if parts == 1:
        return [max(size, 1)]
    least = math.ceil(size / parts)
    usual = sorted({*_USUAL_PARTS, *(1 << power for power in range(13))})
    rounded = math.ceil(least / _MIB) * _MIB
    candidates = [*(mib * _MIB for mib in usual), rounded, least]
    return [one for one in dict.fromkeys(candidates) if one and math.ceil(size / one) == parts]
