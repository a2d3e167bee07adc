"""Runs the units of one thread by signed HTTP requests, which cost less CPU than those of the SDK.

Each downloaded file is compared with the checksum of its object, each upload with that in the response.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Callable

from path_mapping.errors import (
    Cancelled,
    Corrupted,
    NotFound,
    Refused,
    StoreError,
    TargetRemoved,
    Unreachable,
)
from path_mapping.localfs.atomic_file import TargetDir, put_mark, write_all
from path_mapping.localfs.source_file import (
    CHANGED_ATTEMPTS,
    FileChanged,
    FileState,
    RangeReader,
    check_unchanged,
    crc64,
    state_of,
)
from path_mapping.stores.contents import (
    UNSURE,
    ContentMatch,
    ContentSum,
    Piece,
    base64_of_md5,
    compare_checksums,
    match_content,
)
from path_mapping.stores.exchange import NOTHING, Exchange, Request, SentAhead, limit_body
from path_mapping.stores.http_connection import HttpConnection, Response
from path_mapping.stores.objects import Checksums, md5_of_etag
from path_mapping.stores.store import Store
from path_mapping.stores.units import (
    BeginParts,
    CheckFile,
    EndParts,
    FetchedRange,
    GetFile,
    GetRange,
    MultipartUpload,
    PutFile,
    PutPart,
    StoredContent,
    StoredFile,
    Unit,
    UnitRunner,
)

Moved = Callable[[int], None]


class DataPath(UnitRunner):
    """Runs the units of one thread; multipart uploads are begun and ended by the store."""

    def __init__(self, store: Store, exchange: Exchange, buffer: bytearray) -> None:
        self._store = store
        self._exchange = exchange
        self._reader = RangeReader(buffer, exchange.check)
        self._directory: TargetDir | None = None
        # Requests sent ahead, by unit; None if the request could not be sent.
        self._asked: dict[int, SentAhead | None] = {}
        # By unit: the ETag of the wrong object that it has stored.
        self._wrong: dict[int, str] = {}
        self._actions: dict[type, Callable[[Any, Moved], Any]] = {
            GetFile: self._get_file,
            GetRange: self._get_range,
            CheckFile: self._check_file,
            PutFile: self._put_file,
            PutPart: self._put_part,
            BeginParts: self._begin_parts,
            EndParts: self._end_parts,
        }

    def run(self, unit: Unit, moved: Moved) -> Any:
        action = self._actions[type(unit)]
        return self._exchange.signer.with_newest(lambda: action(unit, moved))

    def ask_ahead(self, units: Sequence[Unit]) -> None:
        by_bucket: dict[str, list[GetFile]] = {}
        for unit in units:
            if isinstance(unit, GetFile):
                by_bucket.setdefault(unit.bucket, []).append(unit)
        for of_bucket in by_bucket.values():
            sent = self._exchange.ask_ahead([_request(unit) for unit in of_bucket])
            self._asked.update(zip((unit.number for unit in of_bucket), sent))

    def close(self) -> None:
        """Closes the directory of the last file, and drops requests that were sent ahead."""
        self._leave()
        for asked in filter(None, self._asked.values()):
            self._exchange.drop(asked)
        self._asked.clear()
        self._exchange.close()

    def _leave(self) -> None:
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    def _create(self, doing: str, path: str, root: str, name: str) -> tuple[TargetDir, str, int]:
        """Creates a temporary file in a directory, which stays open and is made again if it was removed."""
        for _ in range(2):
            try:
                if self._directory is None or self._directory.path != path:
                    self._leave()
                    self._directory = TargetDir(path, root)
                return (self._directory, *self._directory.create(name))
            except FileNotFoundError:
                self._leave()
        raise TargetRemoved(f"{doing}: another process removed the directory {path}")

    def _get_file(self, unit: GetFile, moved: Moved) -> ContentMatch:
        request, asked = _request(unit), self._asked.pop(unit.number, None)
        doing = request.doing
        parent, name = os.path.split(unit.path)
        with self._exchange.ask(request, HttpConnection.send, asked) as received:
            directory, temporary, file = self._create(doing, parent, unit.root, name)
            try:
                match = _fill(doing, unit, file, received, moved)
                self._exchange.check()
                if match.verdict == UNSURE and match.crc not in unit.seen:
                    directory.discard(temporary)
                    return match
                try:
                    directory.commit(temporary, name, file)
                except FileNotFoundError as error:
                    raise TargetRemoved(f"{doing}: another process removed the unfinished file") from error
                return match
            except BaseException:
                directory.discard(temporary)
                directory.undo()
                raise
            finally:
                os.close(file)

    def _get_range(self, unit: GetRange, moved: Moved) -> FetchedRange | None:
        try:
            file = os.open(unit.path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            if unit.known is not None and self._reader.crc_of(file, unit.offset, unit.length) == unit.known:
                moved(unit.length)
                return FetchedRange(unit.known, True)
            return self._fetch_range(unit, file, moved)
        finally:
            os.close(file)

    def _fetch_range(self, unit: GetRange, file: int, moved: Moved) -> FetchedRange:
        last = unit.offset + unit.length - 1
        doing = f"reading obs://{unit.bucket}/{unit.key}, bytes {unit.offset} to {last}"
        plain = {"Range": f"bytes={unit.offset}-{last}", **if_match(unit.etag)}
        request = Request(doing, "GET", unit.bucket, unit.key, plain=plain)
        with self._exchange.ask(request, HttpConnection.send) as (response, connection):
            promised = response.text("content-range")
            if response.status != 206 or promised != f"bytes {unit.offset}-{last}/{unit.total}":
                answer = f"HTTP {response.status}, Content-Range {promised!r}"
                raise Unreachable(f"{doing}: found {answer}, expected 206 and this range of {unit.total}")
            crc, done = 0, 0
            for piece in limit_body(doing, connection.body(response), unit.length):
                write_all(file, piece, unit.offset + done)
                crc = crc64(piece, crc)
                done += len(piece)
                moved(len(piece))
            if done != unit.length:
                raise Unreachable(f"{doing}: {done} bytes arrived, expected {unit.length}")
            return FetchedRange(crc, False)

    def _check_file(self, unit: CheckFile, moved: Moved) -> ContentMatch | None:
        """Compares a file with its object's checksum, by a HEAD: a GET may state that of its range."""
        doing = f"checking obs://{unit.bucket}/{unit.key}"
        request = Request(doing, "HEAD", unit.bucket, unit.key, plain=if_match(unit.etag))
        response = self._exchange.head(request)
        if response.length not in (None, unit.size):
            raise Unreachable(f"{doing}: found {response.length} bytes, expected {unit.size}")
        stated = Checksums.stated(response.headers, unit.size)
        try:
            file = os.open(unit.path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            if stated.crc64 is not None:
                return compare_checksums("CRC-64", stated.crc64, unit.crc)
            return match_content(stated, lambda: self._reader.pieces(file, 0, unit.size))
        finally:
            os.close(file)

    def _put_file(self, unit: PutFile, moved: Moved) -> StoredFile:
        stored = send_unchanged(unit, lambda: self._send_file(unit, moved))
        self._wrong.pop(unit.number, None)
        return stored

    def _send_file(self, unit: PutFile, moved: Moved) -> StoredContent:
        doing = f"writing obs://{unit.bucket}/{unit.key}"
        file = os.open(unit.path, os.O_RDONLY)
        try:
            before = state_of(os.fstat(file))
            request = self._put_request(doing, unit, file, 0, before.size)
            body = lambda: self._body(file, 0, before.size, before)  # noqa: E731
            stored = self._exchange.put_object(request, body, before.size, moved)
        except Corrupted as error:
            if error.stored:
                self._wrong[unit.number] = error.stored
            raise
        finally:
            os.close(file)
        return stored._replace(compared=stored.compared or unit.checked)

    def _put_part(self, unit: PutPart, moved: Moved) -> StoredContent:
        doing = f"writing obs://{unit.bucket}/{unit.key}, part {unit.part}"
        file = os.open(unit.path, os.O_RDONLY)
        try:
            known = md5_of_etag(unit.known)
            if known is not None and self._reader.md5_of(file, unit.offset, unit.length) == known:
                moved(unit.length)
                return StoredContent(unit.known, True)
            query = {"partNumber": str(unit.part), "uploadId": unit.upload}
            request = self._put_request(doing, unit, file, unit.offset, unit.length)._replace(query=query)
            body = lambda: self._body(file, unit.offset, unit.length, None)  # noqa: E731
            stored = self._exchange.put(request, body, unit.length, moved)
        except FileChanged:
            # The comparison of the file's state at the end of the upload notices the change.
            return StoredContent("", True)
        finally:
            os.close(file)
        if not stored.etag:
            raise Unreachable(f"{doing}: the response has no ETag")
        return stored._replace(compared=stored.compared or unit.checked)

    def _put_request(self, doing: str, unit: PutFile | PutPart, file: int, offset: int, size: int) -> Request:
        md5 = self._reader.md5_of(file, offset, size) if unit.checked else ""
        headers = {"Content-MD5": base64_of_md5(md5)} if md5 else NOTHING
        return Request(doing, "PUT", unit.bucket, unit.key, headers=headers)

    def _body(self, file: int, offset: int, size: int, before: FileState | None) -> Iterator[Piece]:
        """Yields the bytes of a file.

        The last piece only if the file is still as `before`: OBS stores nothing without it.
        """
        left = size
        for piece in self._reader.pieces(file, offset, size):
            left -= len(piece)
            if not left:
                check_unchanged(file, before)
            yield piece
        if left:
            raise FileChanged("the file was truncated")
        if not size:
            check_unchanged(file, before)

    def _begin_parts(self, unit: BeginParts, moved: Moved) -> MultipartUpload:
        return self._store.begin_parts(unit.bucket, unit.key, unit.left)

    def _end_parts(self, unit: EndParts, moved: Moved) -> str | None:
        bucket, key = unit.bucket, unit.key
        if unit.etags:
            return self._store.end_parts(
                bucket, key, unit.upload, etags=unit.etags, size=unit.size, compared=unit.compared
            )
        self._store.abort_parts(bucket, key, unit.upload)
        return ""

    def given_up(self, unit: Unit, error: Exception) -> Exception:
        """Deletes the wrong object that an attempt has left in OBS, unless it was replaced; or names it."""
        etag = self._wrong.pop(unit.number, "")
        if not etag:
            return error
        try:
            outcome = self._remove_wrong(unit, etag)
        except (StoreError, Cancelled) as problem:
            outcome = f"the object in OBS is wrong, and cannot be deleted: {problem}"
        else:
            if isinstance(error, OSError):  # the file has gone, or keeps changing
                return error
        # A refusal stays one: new credentials may help.
        kind = type(error) if isinstance(error, Refused) else Corrupted
        return kind(f"{error}; {outcome}")

    def _remove_wrong(self, unit: Unit, etag: str) -> str:
        """Deletes a wrong object, and describes the result. Raises `StoreError` if it still exists."""
        doing = f"looking at obs://{unit.bucket}/{unit.key}"
        try:
            if self._exchange.head(Request(doing, "HEAD", unit.bucket, unit.key)).text("etag") != etag:
                return "another client has replaced the wrong object since"
            self._store.delete(unit.bucket, unit.key)
        except NotFound:
            return "there is no object now"
        return "the wrong object was deleted"


def if_match(etag: str) -> dict[str, str]:
    """Returns the header that requests one version of an object; without an ETag any version."""
    return {"If-Match": etag} if etag else {}


def _request(unit: GetFile) -> Request:
    return Request(f"reading obs://{unit.bucket}/{unit.key}", "GET", unit.bucket, unit.key)


def _fill(
    doing: str, unit: GetFile, file: int, received: tuple[Response, HttpConnection], moved: Moved
) -> ContentMatch:
    """Writes the body of a response to the file; checks its size, and its checksum."""
    response, connection = received
    stated = Checksums.stated(response.headers, unit.size)
    content = ContentSum(stated)
    for piece in limit_body(doing, connection.body(response), unit.size):
        write_all(file, piece, content.size)
        content.add(piece)
        moved(len(piece))
    if content.size != unit.size:
        raise Unreachable(f"{doing}: {content.size} bytes arrived, expected {unit.size}")
    match = content.check(doing, stated)
    os.fchmod(file, 0o640)
    put_mark(file, unit.size, response.text("etag"))
    return match


def send_unchanged(unit: PutFile, send: Callable[[], StoredContent]) -> StoredFile:
    """Calls `send` until the file did not change meanwhile, at most three times.

    With `unit.settled` once, and only if the file is still as it was listed. A change also explains a
    refusal: the checksum does not fit then.

    Raises:
        FileChanged: the file changed each time.
        OSError: the file cannot be read.
        StoreError: `send` failed, for another reason.
    """
    for _ in range(1 if unit.settled else CHANGED_ATTEMPTS):
        before = state_of(os.stat(unit.path))
        if unit.settled and (before.size, before.mtime_ns) != (unit.size, unit.mtime_ns):
            raise FileChanged("the file changed after it was listed")
        try:
            stored = send()
        except (StoreError, FileChanged):
            if state_of(os.stat(unit.path)) == before:
                raise
        else:
            if state_of(os.stat(unit.path)) == before:
                return StoredFile(stored.etag, before.size, before.mtime_ns, stored.compared)
    raise FileChanged(f"the file changed during each of {CHANGED_ATTEMPTS} uploads")
