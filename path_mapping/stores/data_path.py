"""Runs units by signed HTTP requests of our own, which cost less CPU than the SDK's: one thread at a time."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Union

from path_mapping.errors import TargetRemoved, Unreachable
from path_mapping.localfs import (
    FileChanged,
    FileState,
    TargetDir,
    crc64,
    md5_of,
    put_mark,
    read_unchanged,
    state_of,
    write_all,
)  # fmt: skip
from path_mapping.stores.exchange import NOTHING, Exchange, OpenConnections, Request
from path_mapping.stores.http_connection import HttpConnection, Response
from path_mapping.stores.obs_responses import (
    ContentCheck,
    base64_of_md5,
    crc64_of_content,
    etag_of_parts,
    likely_part_sizes,
    md5_of_content,
    md5_of_etag,
    parts_of_content,
)
from path_mapping.stores.obs_store import ObsStore
from path_mapping.stores.store import Access, Credentials
from path_mapping.stores.store_path import send_unchanged
from path_mapping.stores.units import (
    RIGHT,
    UNKNOWN,
    UNSURE,
    WRONG,
    BeginParts,
    CheckFile,
    ContentMatch,
    EndParts,
    FetchedRange,
    GetFile,
    GetRange,
    PutFile,
    PutPart,
    StoredFile,
    Unit,
    UnitRunner,
)

BUFFER = 1 << 20  # bytes: a small object arrives in one piece, a large one with few system calls
SENT_AT_ONCE = 256 << 10  # bytes; a larger file goes from the page cache to the socket without a copy

_SAME = ContentMatch(RIGHT)  # one object: its copies in a batch are pickled once

Moved = Callable[[int], None]
Received = Tuple[Response, HttpConnection]


class DataPaths:
    """The data paths of a process, one for each thread; they share the SDK's clients.

    Raises:
        CredentialsMissing: the endpoint or the CA bundle is unusable.
    """

    def __init__(self, access: Access) -> None:
        self._store = ObsStore(access)
        self._connections = OpenConnections()

    def new(self) -> DataPath:
        """A data path for one thread."""
        buffer = bytearray(BUFFER)
        return DataPath(self._store, Exchange(self._store.sdk, self._connections, buffer), buffer)

    def use(self, keys: Credentials) -> None:
        """Signs with these credentials from now on."""
        self._store.sdk.use(keys)

    def shut(self) -> None:
        """Makes the requests of all threads fail with `Cancelled`, now and from now on."""
        self._connections.shut()


class DataPath(UnitRunner):
    """Runs the units of one thread."""

    def __init__(self, store: ObsStore, exchange: Exchange, buffer: bytearray) -> None:
        self._store = store
        self._exchange = exchange
        self._buffer = memoryview(buffer)
        self._directory: Optional[TargetDir] = None
        self._actions: Dict[type, Callable[[Any, Moved], Any]] = {
            GetFile: self._get_file,
            GetRange: self._get_range,
            CheckFile: self._check_file,
            PutFile: self._put_file,
            PutPart: self._put_part,
            BeginParts: lambda unit, moved: self._store.begin_parts(unit.bucket, unit.key, unit.left),
            EndParts: self._end_parts,
        }

    def run(self, unit: Unit, moved: Moved) -> Any:
        return self._actions[type(unit)](unit, moved)

    def close(self) -> None:
        self._exchange.close()
        self._leave()

    def _leave(self) -> None:
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    def _create(self, doing: str, path: str, root: str, name: str) -> Tuple[TargetDir, str, int]:
        """A new temporary file in a directory, which stays open: it is made again if it was removed."""
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
        doing = f"reading obs://{unit.bucket}/{unit.key}"
        parent, name = os.path.split(unit.path)
        with self._exchange.ask(
            Request(doing, "GET", unit.bucket, unit.key), HttpConnection.send
        ) as received:
            directory, temporary, file = self._create(doing, parent, unit.root, name)
            try:
                checked = _fill(doing, unit, file, received, moved)
                match = _SAME if checked else self._match(unit, received[0], file, None)
                self._exchange.check()
                if match.verdict != UNSURE or match.crc in unit.seen:
                    _settle(doing, directory, temporary, name)
                else:
                    directory.discard(temporary)
                return match
            except BaseException:
                directory.discard(temporary)
                directory.undo()
                raise
            finally:
                os.close(file)

    def _get_range(self, unit: GetRange, moved: Moved) -> FetchedRange:
        file = os.open(unit.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if unit.known is not None and self._crc_of(file, unit.offset, unit.length) == unit.known:
                moved(unit.length)
                return FetchedRange(unit.known, True)
            return self._fetch_range(unit, file, moved)
        finally:
            os.close(file)

    def _fetch_range(self, unit: GetRange, file: int, moved: Moved) -> FetchedRange:
        last = unit.offset + unit.length - 1
        doing = f"reading obs://{unit.bucket}/{unit.key}, bytes {unit.offset} to {last}"
        plain = f"Range: bytes={unit.offset}-{last}\r\n" + (f"If-Match: {unit.etag}\r\n" if unit.etag else "")
        request = Request(doing, "GET", unit.bucket, unit.key, plain=plain)
        with self._exchange.ask(request, HttpConnection.send) as (response, connection):
            promised = response.text("content-range")
            if response.status != 206 or promised != f"bytes {unit.offset}-{last}/{unit.total}":
                found = f"HTTP {response.status}, Content-Range {promised!r}"
                raise Unreachable(f"{doing}: found {found}, expected 206 and this range of {unit.total}")
            crc, done = 0, 0
            for piece in connection.body(response):
                if done + len(piece) > unit.length:
                    break
                write_all(file, piece, unit.offset + done)
                crc = crc64(piece, crc)
                done += len(piece)
                moved(len(piece))
            if done != unit.length:
                raise Unreachable(f"{doing}: {done} bytes arrived, expected {unit.length}")
            return FetchedRange(crc, False)

    def _check_file(self, unit: CheckFile, moved: Moved) -> ContentMatch:
        """Asks for the object's checksum: what the response to a range states may be that of the range."""
        doing = f"checking obs://{unit.bucket}/{unit.key}"
        plain = f"If-Match: {unit.etag}\r\n" if unit.etag else ""
        request = Request(doing, "HEAD", unit.bucket, unit.key, plain=plain)
        with self._exchange.ask(request, HttpConnection.send) as (response, _):
            if response.length not in (None, unit.size):
                raise Unreachable(f"{doing}: found {response.length} bytes, expected {unit.size}")
        file = os.open(unit.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return self._match(unit, response, file, unit.crc)
        finally:
            os.close(file)

    def _match(
        self, unit: Union[GetFile, CheckFile], response: Response, file: int, crc: Optional[int]
    ) -> ContentMatch:
        """Compares a complete file with the checksum in a response: CRC-64, else MD5, else those of parts."""
        stated, md5 = crc64_of_content(response.headers), md5_of_content(response.headers)
        if stated is not None:
            crc = self._crc_of(file, 0, unit.size) if crc is None else crc
            return _compared("CRC-64", str(stated), str(crc))
        if md5 is not None:
            return _compared("MD5", md5, self._md5_of(file, 0, unit.size))
        etag, count = parts_of_content(response.headers) or ("", 0)
        sizes = likely_part_sizes(unit.size, count) if etag else []
        for size in sizes:
            offsets = range(0, max(unit.size, 1), size)
            md5s = (self._md5_of(file, one, min(size, unit.size - one)) for one in offsets)
            if etag_of_parts(tuple(md5s)) == etag:
                return _SAME
        if not sizes:
            return ContentMatch(UNKNOWN)
        crc = self._crc_of(file, 0, unit.size) if crc is None else crc
        return ContentMatch(UNSURE, crc, f"the ETag in OBS is {etag}, no usual part size gives it here")

    def _pieces(self, file: int, offset: int, size: int) -> Iterator[memoryview]:
        """Yields these bytes of the file, each piece valid until the next; fewer if the file is shorter.

        Raises:
            Cancelled: the transfer is over.
        """
        end = offset + size
        while offset < end:
            self._exchange.check()
            found = os.preadv(file, [self._buffer[: min(len(self._buffer), end - offset)]], offset)
            if not found:
                return
            yield self._buffer[:found]
            offset += found

    def _crc_of(self, file: int, offset: int, size: int) -> int:
        crc = 0
        for piece in self._pieces(file, offset, size):
            crc = crc64(piece, crc)
        return crc

    def _md5_of(self, file: int, offset: int, size: int) -> str:
        return md5_of(self._pieces(file, offset, size))

    def _put_file(self, unit: PutFile, moved: Moved) -> StoredFile:
        return send_unchanged(unit, lambda: self._send_file(unit, moved))

    def _send_file(self, unit: PutFile, moved: Moved) -> str:
        doing = f"writing obs://{unit.bucket}/{unit.key}"
        file = os.open(unit.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            before = state_of(os.fstat(file))
            size = before.size
            headers = {"Content-MD5": base64_of_md5(self._md5_of(file, 0, size))} if unit.checked else NOTHING
            request = Request(doing, "PUT", unit.bucket, unit.key, {}, headers, f"Content-Length: {size}\r\n")
            return self._sent(request, file, 0, size, moved, before)
        finally:
            os.close(file)

    def _put_part(self, unit: PutPart, moved: Moved) -> str:
        doing = f"writing obs://{unit.bucket}/{unit.key}, part {unit.part}"
        file = os.open(unit.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            known = md5_of_etag(unit.known)
            if known is not None and self._md5_of(file, unit.offset, unit.length) == known:
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
            for piece in (small,) if small is not None else self._pieces(file, offset, size):
                check.add(piece)
            check.finish(request.doing)
        elif not response.text("etag"):  # of something between here and OBS, before the body was read
            raise Unreachable(f"{request.doing}: the response has neither an ETag nor a checksum")
        return response.text("etag")

    def _end_parts(self, unit: EndParts, moved: Moved) -> bool:
        if unit.etags:
            return self._store.end_parts(unit.bucket, unit.key, unit.upload, unit.etags, unit.size)
        self._store.abort_parts(unit.bucket, unit.key, unit.upload)
        return True


def _settle(doing: str, directory: TargetDir, temporary: str, name: str) -> None:
    """Moves an unfinished file into its place."""
    try:
        directory.settle(temporary, name)
    except FileNotFoundError as error:
        raise TargetRemoved(f"{doing}: another process removed the unfinished file") from error


def _compared(kind: str, there: str, here: str) -> ContentMatch:
    if there == here:
        return _SAME
    return ContentMatch(WRONG, why=f"the {kind} in OBS is {there}, here it is {here}")


def _fill(
    doing: str, unit: GetFile, file: int, received: Tuple[Response, HttpConnection], moved: Moved
) -> bool:
    """Writes the body of a response to the file; checks its size, and its checksum: False if it has none."""
    response, connection = received
    check, offset = ContentCheck(response.headers), 0
    for piece in connection.body(response):
        write_all(file, piece, offset)
        check.add(piece)
        offset += len(piece)
        moved(len(piece))
    if offset != unit.size:
        raise Unreachable(f"{doing}: {offset} bytes arrived, expected {unit.size}")
    check.finish(doing)
    os.fchmod(file, 0o640)
    put_mark(file, unit.size, response.text("etag"))
    return check.wanted
