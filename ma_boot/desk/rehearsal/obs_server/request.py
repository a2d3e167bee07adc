"""A connection of a client, and the requests that come in: heads (RFC 9110), and checked bodies."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cached_property
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, unquote_plus

from ma_boot.desk.rehearsal.obs_server.buckets import Refusal
from path_mapping.localfs.source_file import crc64

CHUNK = 1 << 18
MAX_HEAD = 64 << 10
AT_ONCE = 128 << 10  # bytes; a smaller body is sent together with its head


class Connection:
    """A socket with a receive buffer."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._rest = b""

    def head(self) -> bytes:
        """The head of the next request, without the empty line; empty if the client has disconnected."""
        return self._until(b"\r\n\r\n")

    def line(self) -> bytes:
        """The next line, without CRLF; empty if the client has disconnected."""
        return self._until(b"\r\n")

    def _until(self, end: bytes) -> bytes:
        """Reads up to `end`; returns nothing if the client disconnects first, or sends too much."""
        searched = 0
        while (place := self._rest.find(end, searched)) < 0:
            searched = max(0, len(self._rest) - len(end) + 1)
            piece = self._socket.recv(CHUNK) if len(self._rest) < MAX_HEAD else b""
            if not piece:
                return b""
            self._rest += piece
        data, self._rest = self._rest[:place], self._rest[place + len(end) :]
        return data

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none if the client has disconnected."""
        if self._rest:
            piece, self._rest = self._rest[:size], self._rest[size:]
            return piece
        return self._socket.recv(size)

    def send(self, data: bytes) -> None:
        """Sends all of the data."""
        self._socket.sendall(data)

    def send_file(self, head: bytes, file: BinaryIO, offset: int, length: int) -> None:
        """Sends the head and a section of a file."""
        if length <= AT_ONCE:
            self._socket.sendall(head + os.pread(file.fileno(), length, offset))
            return
        self._socket.sendall(head)
        if self._socket.sendfile(file, offset, length) < length:
            raise OSError("the file of an object is shorter than the object")

    def reset(self) -> None:
        """Closes the connection with RST instead of FIN."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def shut_down(self) -> None:
        """Wakes the thread that waits for the client; `close` is for that thread."""
        with contextlib.suppress(OSError):  # it may be closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection."""
        self.shut_down()
        self._socket.close()


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
    def parameters(self) -> dict[str, str | None]:
        """The decoded query."""
        decoded: dict[str, str | None] = {}
        for item in self.target.partition("?")[2].split("&"):
            name, equals, value = item.partition("=")
            if name:
                decoded[unquote_plus(name)] = unquote_plus(value) if equals else None
        return decoded

    @cached_property
    def prefix(self) -> str:
        """The prefix of headers in the dialect of the request and its response: `x-obs-` or `x-amz-`."""
        aws = self.headers.get("authorization", "").startswith("AWS")
        return "x-amz-" if aws or {"AWSAccessKeyId", "X-Amz-Signature"} & set(self.parameters) else "x-obs-"

    @property
    def keeps_alive(self) -> bool:
        """True if the client requests a persistent connection."""
        return self.headers.get("connection", "").lower() != "close"

    def bucket_in_host(self, domain: str) -> str:
        """The bucket in `Host: bucket.domain:port`; empty for path-style requests."""
        host = self.headers.get("host", "").partition(":")[0]
        return host[: -len(domain) - 1] if host.endswith(f".{domain}") else ""

    def address(self, domain: str) -> tuple[str, str]:
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
    headers: dict[str, str] = {}
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
    return any(name.strip().strip('"') in ("*", etag) for name in condition.split(","))


def _seconds(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (TypeError, ValueError):
        return None  # RFC 9110: an invalid date is ignored


def wanted_range(header: str | None, size: int) -> tuple[int, int] | None:
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


MAX_DOCUMENT = 8 << 20  # bytes; fits a deletion of 1,000 keys of 1,024 bytes


@dataclass(frozen=True)
class Received:
    """A received body: its size, its MD5 in hexadecimal, its CRC-64/XZ."""

    size: int
    md5: str
    crc64: int


class Body:
    """The body of a request, read from the connection."""

    def __init__(self, request: HttpRequest, connection: Connection) -> None:
        self._connection = connection
        self._headers, self._prefix = request.headers, request.prefix
        self._expects_continue = request.headers.get("expect", "").lower() == "100-continue"
        self._chunked = request.headers.get("transfer-encoding", "").lower() == "chunked"
        length = request.headers.get("content-length", "0")
        if not length.isdecimal():
            raise Refusal("InvalidRequest", "Content-Length is not a number")
        self.length = int(length)
        self.is_read = self.is_whole = not (self.length or self._chunked)

    def to_file(self, path: Path) -> Received:
        """Writes the body into a new file, deleted on failure; raises `Refusal` for a corrupt body."""
        md5, sha256, crc, size = hashlib.md5(), self._sha256(), 0, 0
        try:
            with path.open("wb", buffering=0) as file:
                for piece in self.pieces():
                    md5.update(piece)
                    crc = crc64(piece, crc)
                    if sha256 is not None:
                        sha256.update(piece)
                    size += file.write(piece)
            self._check(md5, sha256.hexdigest() if sha256 is not None else "", crc)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return Received(size, md5.hexdigest(), crc)

    def document(self) -> bytes:
        """The whole body; raises `Refusal` if it is larger than `MAX_DOCUMENT` or corrupt."""
        if self.length > MAX_DOCUMENT or self._chunked:
            raise Refusal("MalformedXML", f"expected a document of at most {MAX_DOCUMENT} bytes")
        content = b"".join(self.pieces())
        self._check(hashlib.md5(content), hashlib.sha256(content).hexdigest(), crc64(content))
        return content

    def drained(self) -> bool:
        """Reads the unread rest; False if no further request can follow on this connection."""
        if self.is_read:
            return self.is_whole
        if self._expects_continue:  # without the 100 Continue, the client may still send it or not
            return False
        try:
            for _ in self.pieces():
                pass
        except Refusal:
            return False
        return True

    def pieces(self) -> Iterator[bytes]:
        """The body, once; raises `Refusal` if the client disconnects early."""
        if self.is_read:
            return
        self.is_read = True
        if self._expects_continue:
            self._connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        yield from self._chunks() if self._chunked else self._exactly(self.length)
        self.is_whole = True

    def _chunks(self) -> Iterator[bytes]:
        while True:
            try:
                size = int(self._connection.line().partition(b";")[0], 16)
            except ValueError:
                raise Refusal("IncompleteBody", "the client disconnected before the last chunk") from None
            yield from self._exactly(size)
            self._connection.line()
            if not size:
                return

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._connection.read(min(size, CHUNK))
            if not piece:
                raise Refusal("IncompleteBody", f"the client disconnected {size} bytes early")
            size -= len(piece)
            yield piece

    def _sha256(self) -> hashlib._Hash | None:
        declared = self._headers.get("x-amz-content-sha256", "")
        if declared.startswith("STREAMING-"):
            raise Refusal("NotImplemented", "chunked payload signatures are not supported")
        return hashlib.sha256() if len(declared) == 64 else None

    def _check(self, md5: hashlib._Hash, sha256: str, crc: int) -> None:
        declared = self._headers.get("content-md5")
        if declared is not None and _from_base64(declared) != md5.digest():
            raise Refusal("BadDigest", "Content-MD5 does not match the received body")
        declared = self._headers.get(f"{self._prefix}checksum-crc64ecma")
        if declared is not None and declared != str(crc):
            raise Refusal("BadDigest", "the CRC-64 does not match the received body")
        declared = self._headers.get("x-amz-content-sha256", "")
        if len(declared) == 64 and declared != sha256:
            raise Refusal("XAmzContentSHA256Mismatch", "the SHA-256 does not match the received body")


def _from_base64(text: str) -> bytes:
    try:
        digest = base64.b64decode(text, validate=True)
    except ValueError:
        digest = b""
    if len(digest) != 16:
        raise Refusal("InvalidDigest", "Content-MD5 is not a base64-encoded MD5")
    return digest
