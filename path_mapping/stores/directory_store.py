"""A directory in place of OBS: `obs://bucket/key` is the file `ROOT/bucket/key`."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Callable

from path_mapping.errors import NotFound, Refused, Replaced, StoreError, Unreachable, UnsafeTarget
from path_mapping.localfs.atomic_file import check_contained, make_directories, write_verified
from path_mapping.localfs.hash_progress import HashProgress
from path_mapping.localfs.names import is_temporary, name_problem
from path_mapping.localfs.source_file import CHUNK, chunks, md5_of, state_of
from path_mapping.stores.contents import RIGHT, ContentMatch
from path_mapping.stores.data_path import send_unchanged
from path_mapping.stores.objects import ObjectState, StoredObject
from path_mapping.stores.store import Store
from path_mapping.stores.units import GetFile, PutFile, StoredContent, Unit, UnitRunner
from path_mapping.stores.waits import elsewhere

_LARGE_BYTES = 1 << 20  # of a file whose checksum is kept


class DirectoryStore(Store):
    """Files on a local disk or a mounted file system; `key/` is an empty directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._hashing = self.hashing = HashProgress()
        # Of large files, by path and state: each simulated node lists the same inputs.
        self._md5s: dict[tuple[str, int, int, int], str] = {}

    def __repr__(self) -> str:
        return f"DirectoryStore({str(self._root)!r})"

    def runner(self, closing: threading.Event) -> UnitRunner:
        return StorePath(self)

    def place(self, bucket: str, key: str) -> str:
        return os.path.abspath(self._root / bucket / key)

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        root = self._root / bucket
        if not root.is_dir():
            raise NotFound(f"no bucket {bucket}: {root} is not a directory")
        top = prefix.rpartition("/")[0]
        start = self._path(bucket, top) if top else root
        with _store_errors(f"listing obs://{bucket}/{prefix}"):
            keys = sorted(key for key in _keys(root, start) if key.startswith(prefix))
            self._hashing.expect(sum(self._unread(root / key) for key in keys))
            for key in keys:
                path = root / key
                if key.endswith("/"):
                    yield StoredObject(key, 0, None)
                else:
                    md5 = self._md5(path)
                    yield StoredObject(key, path.stat().st_size, md5, f'"{md5}"')

    def _md5(self, path: Path) -> str:
        known = _identity(path)
        md5 = self._md5s.get(known) or md5_of(self._hashing.counted(chunks(path)))
        if known[2] >= _LARGE_BYTES and known == _identity(path):
            self._md5s[known] = md5
        return md5

    def _unread(self, path: Path) -> int:
        """Returns the bytes to read for the checksum of a file; 0 for one that is known or gone."""
        try:
            known = _identity(path)
        except OSError:
            return 0
        return 0 if known in self._md5s or path.is_dir() else known[2]

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        last = ""
        for stored in self.list(bucket, prefix):
            name, slash, _ = stored.key[len(prefix) :].partition("/")
            if name and not slash:
                yield stored
            elif name and name != last:
                last = name
                yield StoredObject(f"{prefix}{name}/", 0, None)

    def find(self, bucket: str, key: str) -> ObjectState | None:
        path = self._path(bucket, key.rstrip("/"))
        if key.endswith("/"):
            empty = path.is_dir() and not any(path.iterdir())
            return ObjectState(0, path.stat().st_mtime_ns) if empty else None
        return _file_state(path.stat()) if path.is_file() else None

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        return self.read_from(bucket, key, 0)

    def read_from(self, bucket: str, key: str, offset: int, version: str = "") -> Iterator[bytes]:
        doing = f"reading obs://{bucket}/{key}"
        with _store_errors(doing), self._path(bucket, key).open("rb") as file:
            if version not in ("", _file_state(os.fstat(file.fileno())).version):
                raise Replaced(f"{doing}: the file was replaced")
            file.seek(offset)
            yield from iter(lambda: file.read(CHUNK), b"")

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> str:
        """See `Store.write`. A bucket that does not exist yet is created."""
        target = self._path(bucket, key[:-1] if key.endswith("/") else key)
        if key.endswith("/"):
            make_directories(target)
            return ""
        with _store_errors(f"writing obs://{bucket}/{key}"):
            write_verified(target, _counted(chunks(source), sent), source.stat().st_size, md5)
        return f'"{md5}"'

    def write_bytes(self, bucket: str, key: str, content: bytes) -> str:
        if key.endswith("/"):
            return self.write(bucket, key, Path(os.devnull), "", lambda size: None)
        with _store_errors(f"writing obs://{bucket}/{key}"):
            write_verified(self._path(bucket, key), [content], len(content), None)
        return f'"{md5_of([content])}"'

    def copy(self, bucket: str, key: str, size: int, to_bucket: str, to_key: str) -> None:
        if self.find(bucket, key) is None:
            raise NotFound(f"copying obs://{bucket}/{key}: no such object")
        source = self._path(bucket, key.rstrip("/"))
        md5 = "" if key.endswith("/") else md5_of(chunks(source))
        self.write(to_bucket, to_key, source, md5, lambda size: None)

    def delete(self, bucket: str, key: str) -> None:
        """See `Store.delete`. Parents that become empty go too: OBS has no directory without a marker."""
        path = self._path(bucket, key.rstrip("/"))
        top = self._path(bucket, "x").parent
        try:
            path.rmdir() if key.endswith("/") else path.unlink()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Refused(f"deleting obs://{bucket}/{key}: {error.strerror}") from error
        with suppress(OSError):  # not empty
            for parent in path.parents:
                if parent == top:
                    break
                parent.rmdir()

    def _path(self, bucket: str, key: str) -> Path:
        """Returns the file of an object; raises `Refused` for a key that would leave its bucket."""
        problem = name_problem(key)
        if problem:
            raise Refused(f"obs://{bucket}/{key}: {problem}")
        path = self._root / bucket / key
        try:
            check_contained(path, self._root / bucket)
        except UnsafeTarget as error:
            raise Refused(f"obs://{bucket}/{key}: {error}") from error
        return path


def _identity(path: Path) -> tuple[str, int, int, int]:
    """Returns path, inode, size and time of the last change: the same for the same content."""
    state = path.stat()
    return str(path), state.st_ino, state.st_size, state.st_mtime_ns


def _keys(root: Path, start: Path) -> Iterator[str]:
    """Yields the key of every file below `start`, and `key/` for each empty directory.

    Links to directories are not followed; dangling links, pipes and the like are not objects.
    """

    # A stack, not a recursion: a tree may be deeper than the recursion limit of Python.
    waiting = [start]
    while waiting:
        directory = waiting.pop()
        here = directory.relative_to(root).as_posix()
        base = "" if here == "." else here + "/"
        try:
            with os.scandir(directory) as listing:
                entries = list(listing)
        except (FileNotFoundError, NotADirectoryError):
            continue  # removed meanwhile; other errors are raised, as the listing would be incomplete
        if not entries and base:
            yield base
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(directory / entry.name)
            elif not is_temporary(entry.name) and entry.is_file():
                yield base + entry.name


def _file_state(status: os.stat_result) -> ObjectState:
    return ObjectState(status.st_size, status.st_mtime_ns, " ".join(map(str, state_of(status))))


# Errors that a retry does not change: it would only delay the report.
_PERMANENT = {
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG),
}


@contextmanager
def _store_errors(doing: str) -> Iterator[None]:
    """Raises the errors of the disk as those of a store."""
    try:
        yield
    except OSError as error:
        message = f"{doing}: {error.strerror}"
        if isinstance(error, FileNotFoundError):
            raise NotFound(message) from error
        if isinstance(error, PermissionError):
            raise Refused(message) from error
        raise (StoreError if error.errno in _PERMANENT else Unreachable)(message) from error


def _counted(pieces: Iterable[bytes], count: Callable[[int], None]) -> Iterator[bytes]:
    """Yields the pieces; each is counted before."""
    for piece in pieces:
        count(len(piece))
        yield piece


class StorePath(UnitRunner):
    """Moves complete files by a store's `read` and `write`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, unit: Unit, moved: Callable[[int], None]) -> Any:
        moved(0)
        if isinstance(unit, GetFile):
            return await elsewhere(partial(self._fetch, unit, moved))
        assert isinstance(unit, PutFile)
        send = partial(self._send, unit, moved)
        return await send_unchanged(unit, lambda before: elsewhere(send))

    def _fetch(self, unit: GetFile, moved: Callable[[int], None]) -> ContentMatch:
        target, root = unit.copy.local, Path(unit.copy.root)
        check_contained(target, root)  # each time: a link may have been created since the last file
        make_directories(root)  # kept even if the file fails, unlike directories below it
        pieces = _counted(self._store.read(unit.copy.bucket, unit.copy.key), moved)
        # Without an MD5: `Store.read` compares the content.
        write_verified(target, pieces, unit.copy.size, None)
        return ContentMatch(RIGHT)

    def _send(self, unit: PutFile, moved: Callable[[int], None]) -> StoredContent:
        source = unit.copy.local
        md5 = md5_of(_counted(chunks(source), lambda size: moved(0)))
        return StoredContent(self._store.write(unit.copy.bucket, unit.copy.key, source, md5, moved), True)
