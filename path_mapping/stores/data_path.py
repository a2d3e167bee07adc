"""The tasks of a transfer: units run by signed HTTP requests, which cost less CPU than those of the SDK.

Each downloaded file is compared with the checksum of its object, each upload with that in the response. A
piece is read, summed and written where it arrives: in another thread that takes a quarter more CPU time, as
both take turns at the GIL. What takes longer than a piece is done there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Iterator
from functools import partial
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
from path_mapping.localfs.atomic_file import OpenDirectories, TargetDir, put_mark, write_all
from path_mapping.localfs.source_file import (
    CHANGED_ATTEMPTS,
    FileChanged,
    FileState,
    RangeReader,
    check_unchanged,
    state_of,
)
from path_mapping.stores import object_requests
from path_mapping.stores.contents import (
    UNSURE,
    ContentMatch,
    ContentSum,
    base64_of_md5,
    compare_checksums,
    match_content,
)
from path_mapping.stores.exchange import NOTHING, Answer, Exchange, Request
from path_mapping.stores.http_connection import Piece
from path_mapping.stores.objects import Checksums, Copy, md5_of_etag
from path_mapping.stores.signer import Signer
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
from path_mapping.stores.waits import elsewhere

# Bytes of a body that a task has in memory: few system calls for a large object, and still in the processor's
# cache when it is summed and written. Larger writes are no faster, and take up to twice as long on a virtual
# machine: they become large folios, of memory that the host has yet to give.
ROOM = 256 << 10

Moved = Callable[[int], None]


class DataPath(UnitRunner):
    """Runs the units of one thread; see `Store.runner`."""

    def __init__(self, signer: Signer, closing: threading.Event) -> None:
        self._exchange = Exchange(signer)
        self._closing = closing
        # Memory that no task uses now.
        self._rooms: list[bytearray] = []
        self._directories = OpenDirectories()
        # By unit: the ETag of the wrong object that it has stored.
        self._wrong: dict[int, str] = {}
        self._actions: dict[type, Callable[[Any, Moved, bytearray], Awaitable[Any]]] = {
            GetFile: self._get_file,
            GetRange: self._get_range,
            CheckFile: self._check_file,
            PutFile: self._put_file,
            PutPart: self._put_part,
            BeginParts: self._begin_parts,
            EndParts: self._end_parts,
        }

    async def run(self, unit: Unit, moved: Moved) -> Any:
        action = self._actions[type(unit)]
        room = self._rooms.pop() if self._rooms else bytearray(ROOM)
        try:
            return await self._exchange.with_newest(lambda: action(unit, moved, room))
        finally:
            self._rooms.append(room)

    def close(self) -> None:
        self._directories.close()
        self._exchange.close()

    def _reader(self, room: bytearray) -> RangeReader:
        return RangeReader(room, self._check)

    def _check(self) -> None:
        """Ends the work of another thread after the last task."""
        if self._closing.is_set():
            raise Cancelled

    def _create(self, doing: str, path: str, root: str, name: str) -> tuple[TargetDir, str, int]:
        """Creates a temporary file in a directory, which is made again if it was removed."""
        for _ in range(2):
            try:
                directory = self._directories.take(path, root)
                try:
                    return (directory, *directory.create(name))
                except BaseException:
                    self._directories.release(directory)
                    raise
            except FileNotFoundError:
                self._directories.forget(path)
        raise TargetRemoved(f"{doing}: another process removed the directory {path}")

    async def _get_file(self, unit: GetFile, moved: Moved, room: bytearray) -> ContentMatch:
        copy = unit.copy
        doing = f"reading {copy.url}"
        parent, name = os.path.split(copy.path)
        with await self._exchange.ask(Request(doing, "GET", copy.bucket, copy.key)) as answer:
            directory, temporary, file = self._create(doing, parent, copy.root, name)
            try:
                stated = Checksums.stated(answer.response.headers, copy.size)
                content = ContentSum(stated)
                await _receive(answer, content, file, offset=0, size=copy.size, moved=moved, room=room)
                match = content.check(doing, stated)
                os.fchmod(file, 0o640)
                put_mark(file, copy.size, answer.response.text("etag"))
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
                self._directories.release(directory)

    async def _get_range(self, unit: GetRange, moved: Moved, room: bytearray) -> FetchedRange | None:
        try:
            file = os.open(unit.path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            known = unit.known
            crc_of = self._reader(room).crc_of
            if known is not None and known == await elsewhere(lambda: crc_of(file, unit.offset, unit.length)):
                moved(unit.length)
                return FetchedRange(known, True)
            return await self._fetch_range(unit, file, moved, room)
        finally:
            os.close(file)

    async def _fetch_range(self, unit: GetRange, file: int, moved: Moved, room: bytearray) -> FetchedRange:
        copy, last = unit.copy, unit.offset + unit.length - 1
        doing = f"reading {copy.url}, bytes {unit.offset} to {last}"
        plain = {"Range": f"bytes={unit.offset}-{last}", **if_match(copy.etag)}
        request = Request(doing, "GET", copy.bucket, copy.key, plain=plain)
        with await self._exchange.ask(request) as answer:
            response = answer.response
            promised = response.text("content-range")
            if response.status != 206 or promised != f"bytes {unit.offset}-{last}/{copy.size}":
                found = f"HTTP {response.status}, Content-Range {promised!r}"
                raise Unreachable(f"{doing}: found {found}, expected 206 and this range of {copy.size}")
            content = ContentSum(Checksums(crc64=0))
            offset, size = unit.offset, unit.length
            await _receive(answer, content, file, offset=offset, size=size, moved=moved, room=room)
            return FetchedRange(content.crc, False)

    async def _check_file(self, unit: CheckFile, moved: Moved, room: bytearray) -> ContentMatch | None:
        """Compares a file with its object's checksum, by a HEAD: a GET may state that of its range."""
        copy = unit.copy
        doing = f"checking {copy.url}"
        request = Request(doing, "HEAD", copy.bucket, copy.key, plain=if_match(copy.etag))
        response = await self._exchange.head(request)
        if response.length not in (None, copy.size):
            raise Unreachable(f"{doing}: found {response.length} bytes, expected {copy.size}")
        stated = Checksums.stated(response.headers, copy.size)
        try:
            file = os.open(unit.path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            if stated.crc64 is not None:
                return compare_checksums("CRC-64", stated.crc64, unit.crc)
            reader = self._reader(room)
            return await elsewhere(lambda: match_content(stated, lambda: reader.pieces(file, 0, copy.size)))
        finally:
            os.close(file)

    async def _put_file(self, unit: PutFile, moved: Moved, room: bytearray) -> StoredFile:
        stored = await send_unchanged(unit, lambda before: self._send_file(unit, before, moved, room))
        self._wrong.pop(unit.number, None)
        return stored

    async def _send_file(
        self, unit: PutFile, before: FileState, moved: Moved, room: bytearray
    ) -> StoredContent:
        doing = f"writing {unit.copy.url}"
        file = os.open(unit.copy.path, os.O_RDONLY)
        try:
            request = await self._put_request(doing, unit, file, offset=0, size=before.size, room=room)
            body = partial(_body, self._reader(room), file, offset=0, size=before.size, before=before)
            stored = await self._exchange.put_object(request, body, before.size, moved)
        except Corrupted as error:
            if error.stored:
                self._wrong[unit.number] = error.stored
            raise
        finally:
            os.close(file)
        return stored._replace(compared=True) if unit.checked else stored

    async def _put_part(self, unit: PutPart, moved: Moved, room: bytearray) -> StoredContent:
        doing = f"writing {unit.copy.url}, part {unit.part}"
        reader, offset, size = self._reader(room), unit.offset, unit.length
        file = os.open(unit.copy.path, os.O_RDONLY)
        try:
            known = md5_of_etag(unit.known)
            if known is not None and known == await elsewhere(lambda: reader.md5_of(file, offset, size)):
                moved(unit.length)
                return StoredContent(unit.known, True)
            request = await self._put_request(doing, unit, file, offset=offset, size=size, room=room)
            request = request._replace(query={"partNumber": str(unit.part), "uploadId": unit.upload})
            body = partial(_body, reader, file, offset=offset, size=size, before=None)
            stored = await self._exchange.put(request, body, moved)
        except FileChanged:
            # The comparison of the file's state at the end of the upload notices the change.
            return StoredContent("", True)
        finally:
            os.close(file)
        if not stored.etag:
            raise Unreachable(f"{doing}: the response has no ETag")
        return stored._replace(compared=True) if unit.checked else stored

    async def _put_request(
        self, doing: str, unit: PutFile | PutPart, file: int, *, offset: int, size: int, room: bytearray
    ) -> Request:
        headers = NOTHING
        if unit.checked:
            md5_of = partial(self._reader(room).md5_of, file, offset, size)
            headers = {"Content-MD5": base64_of_md5(await elsewhere(md5_of) if size > ROOM else md5_of())}
        plain = {"Content-Length": str(size)}
        return Request(doing, "PUT", unit.copy.bucket, unit.copy.key, headers=headers, plain=plain)

    async def _begin_parts(self, unit: BeginParts, moved: Moved, room: bytearray) -> MultipartUpload:
        copy = unit.copy
        return await object_requests.begin_parts(self._exchange, copy.bucket, copy.key, unit.left)

    async def _end_parts(self, unit: EndParts, moved: Moved, room: bytearray) -> str | None:
        return await object_requests.end_parts(self._exchange, unit)

    async def given_up(self, unit: Unit, error: Exception) -> Exception:
        """Deletes the wrong object that an attempt has left in OBS, unless it was replaced; or names it."""
        etag = self._wrong.pop(unit.number, "")
        if not etag:
            return error
        try:
            outcome = await self._remove_wrong(unit.copy, etag)
        except StoreError as problem:
            outcome = f"the object in OBS is wrong, and cannot be deleted: {problem}"
        else:
            if isinstance(error, OSError):  # the file has gone, or keeps changing
                return error
        # A refusal stays one: new credentials may help.
        kind = type(error) if isinstance(error, Refused) else Corrupted
        return kind(f"{error}; {outcome}")

    async def _remove_wrong(self, copy: Copy, etag: str) -> str:
        """Deletes a wrong object, and describes the result. Raises `StoreError` if it still exists."""
        doing = f"looking at {copy.url}"
        try:
            found = await self._exchange.head(Request(doing, "HEAD", copy.bucket, copy.key))
        except NotFound:
            return "there is no object now"
        if found.text("etag") != etag:
            return "another client has replaced the wrong object since"
        await object_requests.delete(self._exchange, copy.bucket, copy.key)
        return "the wrong object was deleted"


def _body(
    reader: RangeReader, file: int, *, offset: int, size: int, before: FileState | None
) -> Iterator[Piece]:
    """Yields the bytes of a file.

    The last piece only if the file is still as `before`: OBS stores nothing without it.
    """
    left = size
    for piece in reader.pieces(file, offset, size):
        left -= len(piece)
        if not left:
            check_unchanged(file, before)
        yield piece
    if left:
        raise FileChanged("the file was truncated")
    if not size:
        check_unchanged(file, before)


def if_match(etag: str) -> dict[str, str]:
    """Returns the header that requests one version of an object; without an ETag any version."""
    return {"If-Match": etag} if etag else {}


async def _receive(
    answer: Answer, content: ContentSum, file: int, *, offset: int, size: int, moved: Moved, room: bytearray
) -> None:
    """Writes the body of a response to its place in the file, and adds it to the sum, which was empty."""
    answer.most = size
    view = memoryview(room)
    while True:
        piece = await answer.piece(view)
        if not piece:
            break
        write_all(file, piece, offset + content.size)
        content.add(piece)
        moved(len(piece))
    if content.size != size:
        raise Unreachable(f"{answer.doing}: {content.size} bytes arrived, expected {size}")


async def send_unchanged(unit: PutFile, send: Callable[[FileState], Awaitable[StoredContent]]) -> StoredFile:
    """Calls `send` until the file did not change meanwhile, at most three times.

    With `unit.settled` once, and only if the file is still as it was listed. A change also explains a
    refusal: the checksum does not fit then.

    Raises:
        FileChanged: the file changed each time.
        OSError: the file cannot be read.
        StoreError: `send` failed, for another reason.
    """
    listed, path = unit.copy, unit.copy.path
    for _ in range(1 if unit.settled else CHANGED_ATTEMPTS):
        before = state_of(os.stat(path))
        if unit.settled and (before.size, before.mtime_ns) != (listed.size, listed.mtime_ns):
            raise FileChanged("the file changed after it was listed")
        try:
            stored = await send(before)
        except (StoreError, FileChanged):
            if state_of(os.stat(path)) == before:
                raise
        else:
            if state_of(os.stat(path)) == before:
                return StoredFile(stored.etag, before.size, before.mtime_ns, stored.compared)
    raise FileChanged(f"the file changed during each of {CHANGED_ATTEMPTS} uploads")
