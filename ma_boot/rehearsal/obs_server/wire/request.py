"""The head of an HTTP request, and the bucket and key that it addresses. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Dict, Mapping, Optional, Tuple
from urllib.parse import unquote, unquote_plus

from ma_boot.rehearsal.obs_server.storage import Refusal

MAX_KEY_BYTES = 1024


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

    @property
    def keeps_alive(self) -> bool:
        """Whether the client asks for a persistent connection."""
        return self.headers.get("connection", "").lower() != "close"


def parse(head: bytes) -> HttpRequest:
    """Parses the head of a request, given without the empty line at its end.

    Raises:
        Refusal: it is not an HTTP/1 request.
    """
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


def bucket_in_host(request: HttpRequest, domain: str) -> str:
    """The bucket in `Host: bucket.domain:port`; empty for path-style requests."""
    host = request.headers.get("host", "").partition(":")[0]
    return host[: -len(domain) - 1] if host.endswith(f".{domain}") else ""


def address(request: HttpRequest, domain: str) -> Tuple[str, str]:
    """The bucket and the key that a request addresses; either may be empty.

    Raises:
        Refusal: the path is not UTF-8, or the key is too long.
    """
    try:
        path = unquote(request.path, errors="strict")
    except UnicodeDecodeError:
        raise Refusal("InvalidURI", "the path is not UTF-8") from None
    bucket, key = bucket_in_host(request, domain), path[1:]
    if not bucket:
        bucket, _, key = key.partition("/")
    if len(key.encode()) > MAX_KEY_BYTES:
        raise Refusal("KeyTooLong", f"expected a key of at most {MAX_KEY_BYTES} bytes")
    return bucket, key
