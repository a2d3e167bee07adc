"""A directory that stands for OBS: `obs://bucket/key` is `ROOT/bucket/key`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Iterator

from path_mapping.errors import NotFound, Refused, StoreError, Unreachable
from path_mapping.local_file import chunks, is_temporary, md5_of, write_verified
from path_mapping.store import StoredObject


class DirectoryStore:
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
        for key in sorted(_keys(root, prefix)):
            path = root / key
            if key.endswith("/"):
                yield StoredObject(key, 0, None)
            else:
                yield StoredObject(key, path.stat().st_size, md5_of(chunks(path)))

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """The file's content."""
        try:
            yield from chunks(self._root / bucket / key)
        except OSError as error:
            raise _as_ours(error, f"reading obs://{bucket}/{key}") from error

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> None:
        """Copies the file; a bucket that does not exist yet is made."""

        def pieces() -> Iterator[bytes]:
            for piece in chunks(source):
                sent(len(piece))
                yield piece

        try:
            write_verified(self._root / bucket / key, pieces(), source.stat().st_size, md5)
        except OSError as error:
            raise _as_ours(error, f"writing obs://{bucket}/{key}") from error


def _keys(root: Path, prefix: str) -> Iterator[str]:
    """Every file's key, and `key/` for each directory with nothing in it."""
    top = root / prefix.rpartition("/")[0]
    for directory, directories, files in os.walk(top):
        here = Path(directory).relative_to(root).as_posix()
        base = "" if here == "." else here + "/"
        names = [name for name in files if not is_temporary(name)]
        found = [base + name for name in names] if files or directories or not base else [base]
        yield from (key for key in found if key.startswith(prefix))


def _as_ours(error: OSError, doing: str) -> StoreError:
    message = f"{doing}: {error.strerror}"
    if isinstance(error, FileNotFoundError):
        return NotFound(message)
    if isinstance(error, PermissionError):
        return Refused(message)
    return Unreachable(message)
