"""Carries out units on the lean data path: what one thread does, one unit after the other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Tuple

from path_mapping.errors import StoreError, Unreachable
from path_mapping.localfs import (
    CHANGED_ATTEMPTS,
    TargetDir,
    crc64,
    md5_of,
    new_md5,
    put_mark,
    state_of,
    write_all,
)
from path_mapping.stores.exchange import NOTHING, Exchange, Request
from path_mapping.stores.http_connection import Answer, Line
from path_mapping.stores.obs_responses import base64_of_md5, crc64_of_content, md5_of_content, md5_of_etag
from path_mapping.stores.units import (
    BeginParts,
    EndParts,
    GetFile,
    GetRange,
    Parted,
    PutFile,
    PutPart,
    Ranged,
    Unit,
)

if TYPE_CHECKING:
    from path_mapping.stores.obs_store import ObsStore

BUFFER = 1 << 20  # a small object is received at once, and a large one with few calls; touched as far as used
SENT_AT_ONCE = 256 << 10  # more goes from the disk's cache to the network without a copy

Moved = Callable[[int], None]


class Changed(OSError):
    """The file is not what it was when its upload began."""


class DataPath:
    """The requests of one thread, by a store that all threads of the process share."""

    def __init__(self, store: ObsStore, exchange: Exchange, buffer: bytearray) -> None:
        self._store = store
        self._exchange = exchange
        self._buffer = memoryview(buffer)
        self._folder: Optional[TargetDir] = None
        self._acts: Dict[type, Callable[[Any, Moved], Any]] = {
            GetFile: self._get_file,
            GetRange: self._get_range,
            PutFile: self._put_file,
            PutPart: self._put_part,
            BeginParts: lambda unit, moved: self._store.begin_parts(unit.bucket, unit.key),
            EndParts: self._end_parts,
        }

    def do(self, unit: Unit, moved: Moved) -> Any:
        """The unit's value; raises a `StoreError`, or `OSError` for the disk."""
        return self._acts[type(unit)](unit, moved)

    def close(self) -> None:
        """Ends the connections."""
        self._exchange.close()
        self._leave()

    def _leave(self) -> None:
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _enter(self, directory: str, root: str) -> TargetDir:
        if self._folder is None or self._folder.path != directory:
            self._leave()
            self._folder = TargetDir(directory, root)
        return self._folder

    def _create(self, directory: str, root: str, name: str) -> Tuple[TargetDir, str, int]:
        folder = self._enter(directory, root)
        return (folder, *folder.create(name))

    def _get_file(self, unit: GetFile, moved: Moved) -> None:
        doing = f"reading obs://{unit.bucket}/{unit.key}"
        request = Request(doing, "GET", unit.bucket, unit.key, NOTHING, NOTHING, "")
        directory, name = os.path.split(unit.path)
        with self._exchange.ask(request, Line.send) as (answer, line):
            try:
                folder, temporary, file = self._create(directory, unit.root, name)
            except FileNotFoundError:  # the directory was removed since it was opened: a failed file does so
                self._leave()
                folder, temporary, file = self._create(directory, unit.root, name)
            try:
                self._fill(doing, unit, file, answer, line, moved)
                try:
                    folder.settle(temporary, name)
                except FileNotFoundError as error:
                    raise Unreachable(f"{doing}: the unfinished file was removed by somebody") from error
            except BaseException:
                folder.discard(temporary)
                folder.undo()
                raise
            finally:
                os.close(file)

    def _fill(self, doing: str, unit: GetFile, file: int, answer: Answer, line: Line, moved: Moved) -> None:
        """Writes the body into the file; of the right size, and of the content that the answer promises."""
        wanted = crc64_of_content(answer.headers)
        md5 = md5_of_content(answer.headers) if wanted is None else None
        crc, digest, offset = 0, new_md5() if md5 else None, 0
        for piece in line.body(answer):
            write_all(file, piece, offset)
            offset += len(piece)
            if wanted is not None:
                crc = crc64(piece, crc)
            elif digest is not None:
                digest.update(piece)
            moved(len(piece))
        if offset != unit.size:
            raise Unreachable(f"{doing}: {offset} bytes arrived, expected {unit.size}")
        if wanted is not None and crc != wanted:
            raise Unreachable(f"{doing}: in OBS the CRC-64 is {wanted}, here {crc}")
        if digest is not None and digest.hexdigest() != md5:
            raise Unreachable(f"{doing}: in OBS the MD5 is {md5}, here {digest.hexdigest()}")
        os.fchmod(file, 0o640)
        put_mark(file, unit.size, answer.text("etag"))

    def _get_range(self, unit: GetRange, moved: Moved) -> Ranged:
        file = os.open(unit.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if unit.known is not None and self._crc_of(file, unit.offset, unit.length) == unit.known:
                moved(unit.length)
                return Ranged(unit.known, None, True)
            return self._fetch_range(unit, file, moved)
        finally:
            os.close(file)

    def _fetch_range(self, unit: GetRange, file: int, moved: Moved) -> Ranged:
        last = unit.offset + unit.length - 1
        doing = f"reading obs://{unit.bucket}/{unit.key}, bytes {unit.offset} to {last}"
        plain = f"Range: bytes={unit.offset}-{last}\r\n" + (f"If-Match: {unit.etag}\r\n" if unit.etag else "")
        request = Request(doing, "GET", unit.bucket, unit.key, NOTHING, NOTHING, plain)
        with self._exchange.ask(request, Line.send) as (answer, line):
            promised = answer.text("content-range")
            if answer.status != 206 or promised != f"bytes {unit.offset}-{last}/{unit.total}":
                found = f"HTTP {answer.status}, Content-Range {promised!r}"
                raise Unreachable(f"{doing}: found {found}, expected 206 and these of {unit.total} bytes")
            crc, done = 0, 0
            for piece in line.body(answer):
                if done + len(piece) > unit.length:
                    break
                write_all(file, piece, unit.offset + done)
                crc = crc64(piece, crc)
                done += len(piece)
                moved(len(piece))
            if done != unit.length:
                raise Unreachable(f"{doing}: {done} bytes arrived")
            return Ranged(crc, crc64_of_content(answer.headers), False)

    def _pieces(self, file: int, offset: int, size: int) -> Iterator[memoryview]:
        """These bytes of the file, each piece good until the next; fewer where it is shorter."""
        end = offset + size
        while offset < end:
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

    def _put_file(self, unit: PutFile, moved: Moved) -> None:
        """Stores the file as it was at one moment: one that changes meanwhile is sent again, three times.

        A change makes a store refuse the file too, as its mark is another one then: that is no fault of it.
        """
        for _ in range(CHANGED_ATTEMPTS):
            file = os.open(unit.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                before = state_of(os.fstat(file))
                try:
                    self._send_file(unit, file, before.size, moved)
                except (StoreError, Changed):
                    if state_of(os.stat(unit.path)) == before:
                        raise
                else:
                    if state_of(os.stat(unit.path)) == before:
                        return
            finally:
                os.close(file)
        raise OSError(f"it changed during each of {CHANGED_ATTEMPTS} uploads")

    def _send_file(self, unit: PutFile, file: int, size: int, moved: Moved) -> None:
        doing = f"writing obs://{unit.bucket}/{unit.key}"
        headers: Dict[str, str] = {}
        if unit.checked:
            headers["Content-MD5"] = base64_of_md5(self._md5_of(file, 0, size))
        request = Request(
            doing, "PUT", unit.bucket, unit.key, NOTHING, headers, f"Content-Length: {size}\r\n"
        )
        self._sent(request, file, 0, size, moved)

    def _put_part(self, unit: PutPart, moved: Moved) -> Parted:
        doing = f"writing obs://{unit.bucket}/{unit.key}, part {unit.part}"
        file = os.open(unit.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            known = md5_of_etag(unit.known)
            if known is not None and self._md5_of(file, unit.offset, unit.length) == known:
                moved(unit.length)
                return Parted(unit.known, True)
            query = {"partNumber": str(unit.part), "uploadId": unit.upload}
            plain = f"Content-Length: {unit.length}\r\n"
            request = Request(doing, "PUT", unit.bucket, unit.key, query, NOTHING, plain)
            etag = self._sent(request, file, unit.offset, unit.length, moved)
        except Changed:
            return Parted("", False)  # who compares the file's state at the end will see it too
        finally:
            os.close(file)
        if not etag:
            raise Unreachable(f"{doing}: the answer has no ETag")
        return Parted(etag, False)

    def _sent(self, request: Request, file: int, offset: int, size: int, moved: Moved) -> str:
        """Sends bytes of a file, and compares the mark that the answer gives; returns its ETag."""
        small = os.pread(file, size, offset) if size <= SENT_AT_ONCE else None
        if small is not None and len(small) < size:
            raise Changed(f"{request.doing}: the file became shorter")

        def send(line: Line, head: bytes) -> None:
            if small is not None:
                line.send(head, small)
                moved(size)
                return
            line.send(head)
            if line.send_file(file, offset, size, moved) < size:
                raise Changed(f"{request.doing}: the file became shorter")

        with self._exchange.ask(request, send) as (answer, line):
            for _ in line.body(answer):
                pass
        crc = crc64_of_content(answer.headers)
        if crc is not None:
            here = crc64(small) if small is not None else self._crc_of(file, offset, size)
            if here != crc:
                raise Unreachable(f"{request.doing}: in OBS the CRC-64 is {crc}, here {here}")
            return answer.text("etag")
        md5 = md5_of_content(answer.headers)
        if md5 is not None:
            digest = md5_of([small]) if small is not None else self._md5_of(file, offset, size)
            if digest != md5:
                raise Unreachable(f"{request.doing}: in OBS the MD5 is {md5}, here {digest}")
        return answer.text("etag")

    def _end_parts(self, unit: EndParts, moved: Moved) -> None:
        if unit.etags:
            self._store.end_parts(unit.bucket, unit.key, unit.upload, unit.etags, unit.size)
        else:
            self._store.abort_parts(unit.bucket, unit.key, unit.upload)
