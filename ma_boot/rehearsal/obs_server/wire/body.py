"""The body of a request: read once, in pieces, and checked against the checksums in the headers."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Iterator, Optional

from ma_boot.rehearsal.obs_server.storage import Refusal
from ma_boot.rehearsal.obs_server.wire.connection import Connection
from ma_boot.rehearsal.obs_server.wire.request import HttpRequest
from path_mapping.localfs import crc64

CHUNK = 1 << 18
MAX_DOCUMENT = 8 << 20  # bytes; fits a deletion of 1,000 keys of 1,024 bytes


@dataclass(frozen=True)
class Received:
    """A received body: its size as stored, its MD5 in hexadecimal, its CRC-64/XZ."""

    size: int
    md5: str
    crc64: int


class Body:
    """What follows a request's head on the connection.

    From the offset `lose_from` on, nothing is stored: the fault `short-write`.
    """

    def __init__(self, request: HttpRequest, connection: Connection) -> None:
        self._connection = connection
        self._headers, self._prefix = request.headers, request.prefix
        self._expects_continue = request.headers.get("expect", "").lower() == "100-continue"
        self._chunked = request.headers.get("transfer-encoding", "").lower() == "chunked"
        length = request.headers.get("content-length", "0")
        if not length.isdecimal():
            raise Refusal("InvalidRequest", "Content-Length is not a number")
        self.length = int(length)
        self.lose_from: Optional[int] = None
        self.is_read = self.is_whole = not (self.length or self._chunked)

    def to_file(self, path: Path) -> Received:
        """Writes the body into a new file, deleted on failure; raises `Refusal` for a corrupt body."""
        try:
            with path.open("wb", buffering=0) as file:
                return self._check_into(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

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

    def read_half(self) -> None:
        """Reads half of the body, or its first piece if the length is unknown."""
        done = 0
        for piece in self.pieces():
            done += len(piece)
            if done * 2 >= self.length:
                return

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

    def _check_into(self, file: BinaryIO) -> Received:
        md5, sha256, crc, size = hashlib.md5(), self._sha256(), 0, 0
        for piece in self.pieces():
            md5.update(piece)
            crc = crc64(piece, crc)
            if sha256 is not None:
                sha256.update(piece)
            file.write(piece if self.lose_from is None else piece[: max(0, self.lose_from - size)])
            size += len(piece)
        self._check(md5, sha256.hexdigest() if sha256 is not None else "", crc)
        return Received(size if self.lose_from is None else file.tell(), md5.hexdigest(), crc)

    def _sha256(self) -> Optional[hashlib._Hash]:
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
