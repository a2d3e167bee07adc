"""A directory that stands for OBS: `obs://bucket/key` is `ROOT/bucket/key`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Iterator

from path_mapping.errors import NotFound, Refused, StoreError, Unreachable, UnsafeTarget
from path_mapping.localfs import (
    chunks,
    contained,
    is_temporary,
    make_directories,
    md5_of,
    unsafe,
    write_verified,
)
from path_mapping.stores.directory_files import DirectoryFiles
from path_mapping.stores.store import StoredObject


class DirectoryStore(DirectoryFiles):
    """Real files on this disk, or on a mounted file system."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __repr__(self) -> str:
        return f"DirectoryStore({str(self._root)!r})"

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """The files below the bucket, in the order of their keys; `key/` is an empty directory."""
        root = self._root / bucket
        if not root.is_dir():
            raise NotFound(f"no bucket {bucket}: {root} is no directory")
        top = prefix.rpartition("/")[0]
        start = self._path(bucket, top) if top else root
        try:
            for key in sorted(key for key in _keys(root, start) if key.startswith(prefix)):
                path = root / key
                if key.endswith("/"):
                    yield StoredObject(key, 0, None)
                else:
                    md5 = md5_of(chunks(path))
                    yield StoredObject(key, path.stat().st_size, md5, f'"{md5}"')
        except OSError as error:
            raise _as_ours(error, f"listing obs://{bucket}/{prefix}") from error

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """The file's content."""
        path = self._path(bucket, key)
        try:
            yield from chunks(path)
        except OSError as error:
            raise _as_ours(error, f"reading obs://{bucket}/{key}") from error

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> None:
        """Copies the file; a bucket that does not exist yet is made. `key/` is a directory."""
        target = self._path(bucket, key[:-1] if key.endswith("/") else key)
        if key.endswith("/"):
            make_directories(target)
            return

        def pieces() -> Iterator[bytes]:
            for piece in chunks(source):
                sent(len(piece))
                yield piece

        try:
            write_verified(target, pieces(), source.stat().st_size, md5)
        except OSError as error:
            raise _as_ours(error, f"writing obs://{bucket}/{key}") from error

    def _path(self, bucket: str, key: str) -> Path:
        """The file of an object; raises `Refused` for a key that would not be below its bucket."""
        problem = unsafe(key)
        if problem:
            raise Refused(f"obs://{bucket}/{key}: {problem}")
        path = self._root / bucket / key
        try:
            contained(path, self._root / bucket)
        except UnsafeTarget as error:
            raise Refused(f"obs://{bucket}/{key}: {error}") from error
        return path


def _keys(root: Path, start: Path) -> Iterator[str]:
    """The key of every file below `start`, and `key/` for each directory with nothing in it.

    Links to directories are not followed; links to nothing, pipes and the like hold no object.
    """

    def unreadable(error: OSError) -> None:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            raise error  # a listing that leaves something out would pass for a whole one

    for directory, directories, files in os.walk(start, onerror=unreadable):
        here = Path(directory).relative_to(root).as_posix()
        base = "" if here == "." else here + "/"
        if not files and not directories and base:
            yield base
        yield from (
            base + name for name in files if not is_temporary(name) and Path(directory, name).is_file()
        )


def _as_ours(error: OSError, doing: str) -> StoreError:
    message = f"{doing}: {error.strerror}"
    if isinstance(error, FileNotFoundError):
        return NotFound(message)
    if isinstance(error, PermissionError):
        return Refused(message)
    return Unreachable(message)
