"""Downloads by signed requests: objects and ranges of them, each file compared with its checksum."""

from __future__ import annotations

import os
from typing import Callable, Dict, Optional, Sequence, Tuple, Union

from path_mapping.errors import TargetRemoved, Unreachable
from path_mapping.localfs import RangeReader, TargetDir, crc64, put_mark, write_all
from path_mapping.stores.exchange import Exchange, Request, SentAhead, limited
from path_mapping.stores.units import (
    RIGHT,
    UNKNOWN,
    UNSURE,
    WRONG,
    CheckFile,
    ContentMatch,
    FetchedRange,
    GetFile,
    GetRange,
)
from path_mapping.wire import (
    ContentCheck,
    ContentSum,
    HttpConnection,
    Response,
    crc64_of_content,
    etag_of_parts,
    likely_part_sizes,
    md5_of_content,
    parts_of_content,
)

_SAME = ContentMatch(RIGHT)  # one object: its copies in a batch are pickled once

Moved = Callable[[int], None]


class DownloadPath:
    """Runs the downloads of one thread."""

    def __init__(self, exchange: Exchange, reader: RangeReader) -> None:
        self._exchange = exchange
        self._reader = reader
        self._directory: Optional[TargetDir] = None
        self._asked: Dict[int, Optional[SentAhead]] = {}  # by unit; None if its request could not be sent

    def close(self) -> None:
        """Closes the directory that the last file went to, and gives up what was asked for ahead."""
        self._leave()
        for asked in filter(None, self._asked.values()):
            self._exchange.drop(asked)
        self._asked.clear()

    def ask_ahead(self, units: Sequence[GetFile]) -> None:
        """Sends the requests for objects of one bucket whose turn comes soon."""
        sent = self._exchange.ask_ahead([_request(unit) for unit in units])
        self._asked.update(zip((unit.number for unit in units), sent))

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

    def get_file(self, unit: GetFile, moved: Moved) -> ContentMatch:
        request, asked = _request(unit), self._asked.pop(unit.number, None)
        doing = request.doing
        parent, name = os.path.split(unit.path)
        with self._exchange.ask(request, HttpConnection.send, asked) as received:
            directory, temporary, file = self._create(doing, parent, unit.root, name)
            try:
                checked = _fill(doing, unit, file, received, moved)
                match = _SAME if checked else self._match(unit, received[0], file, None)
                self._exchange.check()
                if match.verdict != UNSURE or match.crc in unit.seen:
                    _settle(doing, directory, temporary, name, file)
                else:
                    directory.discard(temporary)
                return match
            except BaseException:
                directory.discard(temporary)
                directory.undo()
                raise
            finally:
                os.close(file)

    def get_range(self, unit: GetRange, moved: Moved) -> Optional[FetchedRange]:
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
        plain = {"Range": f"bytes={unit.offset}-{last}", **_if_match(unit.etag)}
        request = Request(doing, "GET", unit.bucket, unit.key, plain=plain)
        with self._exchange.ask(request, HttpConnection.send) as (response, connection):
            promised = response.text("content-range")
            if response.status != 206 or promised != f"bytes {unit.offset}-{last}/{unit.total}":
                found = f"HTTP {response.status}, Content-Range {promised!r}"
                raise Unreachable(f"{doing}: found {found}, expected 206 and this range of {unit.total}")
            crc, done = 0, 0
            for piece in limited(doing, connection.body(response), unit.length):
                write_all(file, piece, unit.offset + done)
                crc = crc64(piece, crc)
                done += len(piece)
                moved(len(piece))
            if done != unit.length:
                raise Unreachable(f"{doing}: {done} bytes arrived, expected {unit.length}")
            return FetchedRange(crc, False)

    def check_file(self, unit: CheckFile, moved: Moved) -> Optional[ContentMatch]:
        """Asks for the object's checksum: what the response to a range states may be that of the range."""
        doing = f"checking obs://{unit.bucket}/{unit.key}"
        request = Request(doing, "HEAD", unit.bucket, unit.key, plain=_if_match(unit.etag))
        response = self._exchange.head(request)
        if response.length not in (None, unit.size):
            raise Unreachable(f"{doing}: found {response.length} bytes, expected {unit.size}")
        try:
            file = os.open(unit.path, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
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
            crc = self._reader.crc_of(file, 0, unit.size) if crc is None else crc
            return _compared("CRC-64", str(stated), str(crc))
        if md5 is not None:
            return _compared("MD5", md5, self._reader.md5_of(file, 0, unit.size))
        etag, count = parts_of_content(response.headers) or ("", 0)
        sizes = likely_part_sizes(unit.size, count) if etag else []
        for size in sizes:
            offsets = range(0, max(unit.size, 1), size)
            md5s = (self._reader.md5_of(file, one, min(size, unit.size - one)) for one in offsets)
            if etag_of_parts(tuple(md5s)) == etag:
                return _SAME
        if not sizes:
            return ContentMatch(UNKNOWN)
        crc = self._reader.crc_of(file, 0, unit.size) if crc is None else crc
        return ContentMatch(UNSURE, crc, f"the ETag in OBS is {etag}, no usual part size gives it here")


def _if_match(etag: str) -> Dict[str, str]:
    """The header that asks for one version of an object, whichever it is without an ETag."""
    return {"If-Match": etag} if etag else {}


def _request(unit: GetFile) -> Request:
    return Request(f"reading obs://{unit.bucket}/{unit.key}", "GET", unit.bucket, unit.key)


def _settle(doing: str, directory: TargetDir, temporary: str, name: str, file: int) -> None:
    """Moves an unfinished file into its place."""
    try:
        directory.settle(temporary, name, file)
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
    content = ContentSum(check.kind)
    for piece in limited(doing, connection.body(response), unit.size):
        write_all(file, piece, offset)
        content.add(piece)
        offset += len(piece)
        moved(len(piece))
    if offset != unit.size:
        raise Unreachable(f"{doing}: {offset} bytes arrived, expected {unit.size}")
    check.compare(doing, content)
    os.fchmod(file, 0o640)
    put_mark(file, unit.size, response.text("etag"))
    return bool(check.kind)
