"""Uploads by signed requests: files and parts of them, compared with the checksums in the responses."""

from __future__ import annotations

import os
from typing import Callable, Dict, Optional, Union

from path_mapping.errors import Cancelled, Corrupted, Expired, NotFound, Refused, StoreError, Unreachable
from path_mapping.localfs import FileChanged, FileState, RangeReader, check_unchanged, state_of
from path_mapping.stores.exchange import LONGEST_ERROR, NOTHING, Exchange, Request, limited
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.store_path import send_unchanged
from path_mapping.stores.units import (
    BeginParts,
    EndParts,
    MultipartUpload,
    PutFile,
    PutPart,
    StoredContent,
    StoredFile,
)
from path_mapping.wire import (
    CRC64,
    ContentCheck,
    ContentSum,
    HttpConnection,
    Response,
    base64_of_md5,
    md5_of_etag,
    summed,
)

Moved = Callable[[int], None]


class UploadPath:
    """Runs the uploads of one thread."""

    def __init__(self, store: ObsStore, exchange: Exchange, reader: RangeReader) -> None:
        self._store = store
        self._exchange = exchange
        self._reader = reader
        self._wrong: Dict[int, str] = {}  # by unit: the ETag of the wrong object that it has stored
        self._stated = CRC64  # the kind of checksum that the last response had: most likely the next one's

    def begin_parts(self, unit: BeginParts, moved: Moved) -> MultipartUpload:
        return self._store.begin_parts(unit.bucket, unit.key, unit.left)

    def put_file(self, unit: PutFile, moved: Moved) -> StoredFile:
        stored = send_unchanged(unit, lambda: self._send_file(unit, moved))
        self._wrong.pop(unit.number, None)
        return stored

    def _send_file(self, unit: PutFile, moved: Moved) -> StoredContent:
        doing = f"writing obs://{unit.bucket}/{unit.key}"
        file = os.open(unit.path, os.O_RDONLY)
        try:
            before = state_of(os.fstat(file))
            request = self._request(doing, unit, {}, file, 0, before.size)
            stored = self._sent(request, file, 0, before.size, moved, before)
        except Corrupted as error:
            if error.stored:
                self._wrong[unit.number] = error.stored
            raise
        finally:
            os.close(file)
        if not stored.compared:
            self._look(doing, unit, stored.etag, before.size)
        return stored._replace(compared=stored.compared or unit.checked)

    def put_part(self, unit: PutPart, moved: Moved) -> StoredContent:
        doing = f"writing obs://{unit.bucket}/{unit.key}, part {unit.part}"
        file = os.open(unit.path, os.O_RDONLY)
        try:
            known = md5_of_etag(unit.known)
            if known is not None and self._reader.md5_of(file, unit.offset, unit.length) == known:
                moved(unit.length)
                return StoredContent(unit.known, True)
            query = {"partNumber": str(unit.part), "uploadId": unit.upload}
            request = self._request(doing, unit, query, file, unit.offset, unit.length)
            stored = self._sent(request, file, unit.offset, unit.length, moved)
        except FileChanged:
            return StoredContent("", True)  # the comparison of the file's state at the end notices it, too
        finally:
            os.close(file)
        if not stored.etag:
            raise Unreachable(f"{doing}: the response has no ETag")
        return stored._replace(compared=stored.compared or unit.checked)

    def _request(
        self,
        doing: str,
        unit: Union[PutFile, PutPart],
        query: Dict[str, str],
        file: int,
        offset: int,
        size: int,
    ) -> Request:
        md5 = self._reader.md5_of(file, offset, size) if unit.checked else ""
        headers = {"Content-MD5": base64_of_md5(md5)} if md5 else NOTHING
        return Request(doing, "PUT", unit.bucket, unit.key, query, headers, {"Content-Length": str(size)})

    def _sent(
        self, request: Request, file: int, offset: int, size: int, moved: Moved,
        before: Optional[FileState] = None,
    ) -> StoredContent:  # fmt: skip
        """Sends a range of a file, and compares it with the checksum in the response, if that has one.

        It is read once, and summed on the way; again only if the response has a checksum of another kind than
        the last one had. Its last piece is only sent if the file is still as `before`: OBS stores nothing
        without that.
        """
        content = ContentSum(self._stated)

        def send(connection: HttpConnection, head: bytes) -> None:
            nonlocal content
            content = ContentSum(self._stated)  # it is sent again if the server had closed the connection
            left = size
            for piece in self._reader.pieces(file, offset, size):
                left -= len(piece)
                if not left:
                    check_unchanged(file, before)
                connection.send(head, piece)
                content.add(piece)
                moved(len(piece))
                head = b""
            if left:
                raise FileChanged("the file was truncated")
            if not size:
                check_unchanged(file, before)
                connection.send(head)

        with self._exchange.ask(request, send) as (response, connection):
            b"".join(
                limited(request.doing, connection.body(response), LONGEST_ERROR)
            )  # nothing, but the connection is used again
        check, etag = ContentCheck(response.headers), response.text("etag")
        self._stated = check.kind
        if not check.kind:
            if not etag:  # of something between here and OBS, before the body was read
                raise Unreachable(f"{request.doing}: the response has neither an ETag nor a checksum")
            return StoredContent(etag, False)
        if content.kind != check.kind:
            content = summed(check.kind, self._reader.pieces(file, offset, size))
        try:
            check.compare(request.doing, content)
        except Corrupted as error:
            error.stored = etag
            raise
        return StoredContent(etag, True)

    def _look(self, doing: str, unit: PutFile, etag: str, size: int) -> None:
        """Makes sure that the object is there, with this ETag and size, when no checksum tells.

        The answer may be one of something between here and OBS, which has not read the body. Who may write
        only is believed.
        """
        try:
            found = self._head(unit)
        except NotFound:
            raise Unreachable(f"{doing}: the response has an ETag, but there is no such object") from None
        except Expired:
            raise
        except Refused:
            return
        if found.text("etag") != etag or found.length not in (None, size):
            there = f"ETag {found.text('etag')} and {found.length} bytes"
            raise Unreachable(f"{doing}: found an object with {there}, expected {etag} and {size}")

    def _head(self, unit: PutFile) -> Response:
        doing = f"looking at obs://{unit.bucket}/{unit.key}"
        return self._exchange.head(Request(doing, "HEAD", unit.bucket, unit.key))

    def given_up(self, unit: PutFile, error: Exception) -> Exception:
        """Deletes the wrong object that an attempt has left in OBS, if it is still that; else names it."""
        etag = self._wrong.pop(unit.number, "")
        if not etag:
            return error
        try:
            said = self._removed(unit, etag)
        except (StoreError, Cancelled) as problem:
            said = f"the object in OBS is wrong, and cannot be deleted: {problem}"
        else:
            if isinstance(error, OSError):  # the file has gone, or keeps changing, and nothing of it is there
                return error
        kind = type(error) if isinstance(error, Refused) else Corrupted  # new credentials may help
        return kind(f"{error}; {said}")

    def _removed(self, unit: PutFile, etag: str) -> str:
        """What was done about the wrong object. Raises `StoreError` if it is still there."""
        try:
            if self._head(unit).text("etag") != etag:
                return "somebody else has replaced the wrong object since"
            self._store.delete(unit.bucket, unit.key)
        except NotFound:
            return "there is no object now"
        return "the wrong object was deleted"

    def end_parts(self, unit: EndParts, moved: Moved) -> Optional[str]:
        if unit.etags:
            return self._store.end_parts(
                unit.bucket, unit.key, unit.upload, unit.etags, unit.size, unit.compared
            )
        self._store.abort_parts(unit.bucket, unit.key, unit.upload)
        return ""
