"""One HTTP request as a value: the head of it, and which bucket and key it addresses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Dict, Mapping, Optional, Tuple
from urllib.parse import unquote, unquote_plus

from ma_boot.rehearsal.obs_server.storage.refusals import Refusal

MAX_KEY_BYTES = 1024


@dataclass(frozen=True)
class Request:
    """`target` is what stood in the first line; names of `headers` are in lower case.

    A parameter without `=` has the value None, because that is how signatures tell the two apart.
    """

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        """The path as it was sent: percent-encoded."""
        return self.target.partition("?")[0]

    @cached_property
    def parameters(self) -> Dict[str, Optional[str]]:
        """The query, decoded."""
        found: Dict[str, Optional[str]] = {}
        for item in self.target.partition("?")[2].split("&"):
            name, equals, value = item.partition("=")
            if name:
                found[unquote_plus(name)] = unquote_plus(value) if equals else None
        return found

    @property
    def keeps_alive(self) -> bool:
        """The client wants the connection to stay."""
        return self.headers.get("connection", "").lower() != "close"


def parse(head: bytes) -> Request:
    """A request's head, without the empty line at its end; raises `Refusal` where it is none."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refusal("InvalidRequest", "the first line is no HTTP request")
    headers: Dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    target = words[1]
    if "://" in target.partition("?")[0]:  # the absolute form, as through a proxy
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    return Request(words[0], target, headers)


def bucket_in_host(request: Request, domain: str) -> str:
    """The bucket of `Host: bucket.domain:port`; empty in path style."""
    host = request.headers.get("host", "").partition(":")[0]
    return host[: -len(domain) - 1] if host.endswith(f".{domain}") else ""


def address(request: Request, domain: str) -> Tuple[str, str]:
    """The bucket and the key that a request means; either may be empty."""
    try:
        path = unquote(request.path, errors="strict")
    except UnicodeDecodeError:
        raise Refusal("InvalidURI", "the path is not UTF-8") from None
    bucket, key = bucket_in_host(request, domain), path[1:]
    if not bucket:
        bucket, _, key = key.partition("/")
    if len(key.encode()) > MAX_KEY_BYTES:
        raise Refusal("KeyTooLong", f"a key has {MAX_KEY_BYTES} bytes at most")
    return bucket, key
