"""Uploads by signed requests: files and parts of them, compared with the checksums in the responses."""

from __future__ import annotations

import os
from typing import Callable, Optional

from path_mapping.errors import Unreachable
from path_mapping.localfs import FileChanged, FileState, RangeReader, read_unchanged, state_of
from path_mapping.stores.exchange import NOTHING, Exchange, Request
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.store_path import send_unchanged
from path_mapping.stores.units import BeginParts, EndParts, MultipartUpload, PutFile, PutPart, StoredFile
from path_mapping.wire import ContentCheck, HttpConnection, base64_of_md5, md5_of_etag

SENT_AT_ONCE = 256 << 10  # bytes; a larger file goes from the page cache to the socket without a copy

Moved = Callable[[int], None]


class UploadPath:
    """Runs the uploads of one thread."""

    def __init__(self, store: ObsStore, exchange: Exchange, reader: RangeReader) -> None:
        self._store = store
        self._exchange = exchange
        self._reader = reader

    def begin_parts(self, unit: BeginParts, moved: Moved) -> MultipartUpload:
        return self._store.begin_parts(unit.bucket, unit.key, unit.left)

    def put_file(self, unit: PutFile, moved: Moved) -> StoredFile:
        return send_unchanged(unit, lambda: self._send_file(unit, moved))

    def _send_file(self, unit: PutFile, moved: Moved) -> str:
        doing = f"writing obs://{unit.bucket}/{unit.key}"
        file = os.open(unit.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            before = state_of(os.fstat(file))
            size = before.size
            headers = (
                {"Content-MD5": base64_of_md5(self._reader.md5_of(file, 0, size))}
                if unit.checked
                else NOTHING
            )
            request = Request(doing, "PUT", unit.bucket, unit.key, {}, headers, f"Content-Length: {size}\r\n")
            return self._sent(request, file, 0, size, moved, before)
        finally:
            os.close(file)

    def put_part(self, unit: PutPart, moved: Moved) -> str:
        doing = f"writing obs://{unit.bucket}/{unit.key}, part {unit.part}"
        file = os.open(unit.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            known = md5_of_etag(unit.known)
            if known is not None and self._reader.md5_of(file, unit.offset, unit.length) == known:
                moved(unit.length)
                return unit.known
            query = {"partNumber": str(unit.part), "uploadId": unit.upload}
            plain = f"Content-Length: {unit.length}\r\n"
            request = Request(doing, "PUT", unit.bucket, unit.key, query, plain=plain)
            etag = self._sent(request, file, unit.offset, unit.length, moved)
        except FileChanged:
            return ""  # the comparison of the file's state at the end notices it, too
        finally:
            os.close(file)
        if not etag:
            raise Unreachable(f"{doing}: the response has no ETag")
        return etag

    def _sent(
        self, request: Request, file: int, offset: int, size: int, moved: Moved,
        before: Optional[FileState] = None,
    ) -> str:  # fmt: skip
        """Sends a range of a file, and checks the checksum in the response; returns the ETag.

        Its last bytes are only sent if the file is still as `before`: OBS stores nothing without them.
        """
        first = max(0, size - SENT_AT_ONCE)
        small = read_unchanged(file, offset, size, before) if not first else None

        def send(connection: HttpConnection, head: bytes) -> None:
            if small is None:
                connection.send(head)
                if connection.send_file(file, offset, first, moved) < first:
                    raise FileChanged("the file was truncated")
                head = b""
            connection.send(head, small or read_unchanged(file, offset + first, size - first, before))
            moved(size - first)

        with self._exchange.ask(request, send) as (response, connection):
            b"".join(connection.body(response))  # nothing, but the connection is used again
        check = ContentCheck(response.headers)
        if check.wanted:
            for piece in (small,) if small is not None else self._reader.pieces(file, offset, size):
                check.add(piece)
            check.finish(request.doing)
        elif not response.text("etag"):  # of something between here and OBS, before the body was read
            raise Unreachable(f"{request.doing}: the response has neither an ETag nor a checksum")
        return response.text("etag")

    def end_parts(self, unit: EndParts, moved: Moved) -> bool:
        if unit.etags:
            return self._store.end_parts(unit.bucket, unit.key, unit.upload, unit.etags, unit.size)
        self._store.abort_parts(unit.bucket, unit.key, unit.upload)
        return True
