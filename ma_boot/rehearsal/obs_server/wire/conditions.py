"""Conditional requests and ranges by RFC 9110, sections 13 and 14. Pure."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import Mapping, Optional, Tuple

from ma_boot.rehearsal.obs_server.storage import Refusal

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def is_modified(headers: Mapping[str, str], etag: str, modified: float, prefix: str = "") -> bool:
    """Evaluates the conditions; False if the client has this version already (304).

    `modified` is in seconds since the epoch; `prefix` precedes the names of the headers, for the source of a
    copy. Raises `Refusal` if a precondition failed (412).
    """
    match, none_match = headers.get(f"{prefix}if-match"), headers.get(f"{prefix}if-none-match")
    unmodified = _seconds(headers.get(f"{prefix}if-unmodified-since"))
    since = _seconds(headers.get(f"{prefix}if-modified-since"))
    if match is not None and not _names(match, etag):
        raise Refusal("PreconditionFailed", "If-Match: the object has another ETag")
    if match is None and unmodified is not None and int(modified) > unmodified:
        raise Refusal("PreconditionFailed", "If-Unmodified-Since: the object is newer")
    if none_match is not None:
        return not _names(none_match, etag)
    return since is None or int(modified) > since


def _names(condition: str, etag: str) -> bool:
    return any(one.strip().strip('"') in ("*", etag) for one in condition.split(","))


def _seconds(date: Optional[str]) -> Optional[float]:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (TypeError, ValueError):
        return None  # RFC 9110: an invalid date is ignored


def wanted_range(header: Optional[str], size: int) -> Optional[Tuple[int, int]]:
    """The offset and length of a `Range`; None for the whole object: no header, or not a single range.

    Raises `Refusal` if the range begins beyond the end of the object.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or not (match[1] or match[2]):
        return None
    if match[1]:
        first, last = int(match[1]), min(int(match[2] or size), size - 1)
        if match[2] and int(match[2]) < first:
            return None
    else:
        first, last = max(0, size - int(match[2])), size - 1
    if first >= size or (match[2] == "0" and not match[1]):
        raise Refusal("InvalidRange", f"the object has {size} bytes")
    return first, last - first + 1
