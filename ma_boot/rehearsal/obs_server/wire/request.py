"""The head of an HTTP request: the bucket and key it addresses, conditions and ranges (RFC 9110). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Dict, Mapping, Optional, Tuple
from urllib.parse import unquote, unquote_plus

from ma_boot.rehearsal.obs_server.storage import Refusal

MAX_KEY_BYTES = 1024
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class HttpRequest:
    """The head of a request; names of `headers` are in lower case.

    A parameter without `=` has the value None: signatures distinguish it from an empty one.
    """

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        """The path, percent-encoded as it was sent."""
        return self.target.partition("?")[0]

    @cached_property
    def parameters(self) -> Dict[str, Optional[str]]:
        """The decoded query."""
        found: Dict[str, Optional[str]] = {}
        for item in self.target.partition("?")[2].split("&"):
            name, equals, value = item.partition("=")
            if name:
                found[unquote_plus(name)] = unquote_plus(value) if equals else None
        return found

    @cached_property
    def prefix(self) -> str:
        """The prefix of headers in the dialect of the request and its response: `x-obs-` or `x-amz-`."""
        aws = self.headers.get("authorization", "").startswith("AWS")
        return "x-amz-" if aws or {"AWSAccessKeyId", "X-Amz-Signature"} & set(self.parameters) else "x-obs-"

    @property
    def keeps_alive(self) -> bool:
        """Whether the client asks for a persistent connection."""
        return self.headers.get("connection", "").lower() != "close"

    def bucket_in_host(self, domain: str) -> str:
        """The bucket in `Host: bucket.domain:port`; empty for path-style requests."""
        host = self.headers.get("host", "").partition(":")[0]
        return host[: -len(domain) - 1] if host.endswith(f".{domain}") else ""

    def address(self, domain: str) -> Tuple[str, str]:
        """The bucket and the key, either may be empty; raises `Refusal` for an invalid path."""
        try:
            path = unquote(self.path, errors="strict")
        except UnicodeDecodeError:
            raise Refusal("InvalidURI", "the path is not UTF-8") from None
        bucket, key = self.bucket_in_host(domain), path[1:]
        if not bucket:
            bucket, _, key = key.partition("/")
        if len(key.encode()) > MAX_KEY_BYTES:
            raise Refusal("KeyTooLong", f"expected a key of at most {MAX_KEY_BYTES} bytes")
        return bucket, key


def parse_head(head: bytes) -> HttpRequest:
    """Parses the head of a request, given without the empty line; raises `Refusal` if it is not HTTP/1."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refusal("InvalidRequest", "the first line is not an HTTP/1 request line")
    headers: Dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    target = words[1]
    if "://" in target.partition("?")[0]:  # the absolute form, as sent to a proxy
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    return HttpRequest(words[0], target, headers)


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
