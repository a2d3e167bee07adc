"""Buckets that are plain directories, as `--obs-root` has them: `obs://bucket/key` is ROOT/bucket/key."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from ma_boot.rehearsal.obs_server.storage.buckets import Bucket, Buckets
from ma_boot.rehearsal.obs_server.storage.listing import Page
from ma_boot.rehearsal.obs_server.storage.objects import Stored
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal
from path_mapping.errors import UnsafeTarget
from path_mapping.localfs import TEMPORARY, chunks, contained, crc64, is_temporary, unsafe

_NO_CONTENT = os.devnull  # of the object `key/`, which is a directory


class DirectoryBucket(Bucket):
    """The files below a directory, as they were when the server started, and what comes after.

    Checksums are made when somebody first asks for an object. Headers and metadata are kept as long as the
    server runs: a file has no place for them.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._objects: Dict[str, Stored] = {stored.key: stored for stored in _found(directory)}
        self._sorted = None

    def new_file(self) -> Path:
        """On the bucket's own file system, under a name that no listing shows."""
        return self._directory / f".{uuid.uuid4().hex}{TEMPORARY}"

    def keep(self, stored: Stored) -> Stored:
        """Moves a content to the file of its key; raises `Refusal` for a key that can have none."""
        name = stored.key[:-1] if stored.key.endswith("/") else stored.key
        target = self._directory / name
        try:
            if unsafe(name):
                raise Refusal("InvalidArgument", f"no file can have this key: {unsafe(name)}")
            contained(target, self._directory)
            kept = replace(stored, path=self._placed(stored, target))
        except (OSError, UnsafeTarget, Refusal) as error:
            os.unlink(stored.path)
            raise error if isinstance(error, Refusal) else Refusal("InvalidArgument", str(error)) from error
        with self._lock:
            self._put(kept)
        return kept

    def _placed(self, stored: Stored, target: Path) -> str:
        if not stored.key.endswith("/"):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(stored.path, target)
            return str(target)
        if stored.size:
            raise Refusal("InvalidArgument", "no file can have a key that ends with /")
        target.mkdir(parents=True, exist_ok=True)
        os.unlink(stored.path)
        return _NO_CONTENT

    def get(self, key: str) -> Stored:
        """The object of a key, with its checksums; raises `Refusal`."""
        found = super().get(key)
        return found if found.etag else self._checked(found)

    def _checked(self, found: Stored) -> Stored:
        try:
            checked = _with_checksums(found)
        except FileNotFoundError:
            raise Refusal("NoSuchKey", "the file of this object has gone") from None
        with self._lock:
            if self._objects.get(found.key) is found:
                self._objects[found.key] = checked
        return checked

    def _unlink(self, stored: Stored) -> None:
        with contextlib.suppress(OSError):  # gone already, or a directory that has files by now
            if stored.key.endswith("/"):
                os.rmdir(self._directory / stored.key)
            else:
                os.unlink(stored.path)

    def page(self, prefix: str, marker: str, delimiter: str, limit: int) -> Tuple[Page, List[Stored]]:
        """One page of the listing and the objects on it."""
        found, listed = super().page(prefix, marker, delimiter, limit)
        return found, [one if one.etag else self._checked(one) for one in listed]


class DirectoryBuckets(Buckets):
    """The directories below ROOT."""

    def _bucket(self, directory: Path) -> Bucket:
        return DirectoryBucket(directory)


def _found(root: Path) -> Iterator[Stored]:
    """An object for each file, and for each directory with nothing in it, as `DirectoryStore` lists them."""
    for directory, directories, files in os.walk(root):
        here = Path(directory).relative_to(root).as_posix()
        start = "" if here == "." else here + "/"
        if start and not files and not directories:
            yield Stored(start, 0, "", 0, os.stat(directory).st_mtime, path=_NO_CONTENT)
        for path in (Path(directory, name) for name in files if not is_temporary(name)):
            if path.is_file():
                state = path.stat()
                yield Stored(start + path.name, state.st_size, "", 0, state.st_mtime, path=str(path))


def _with_checksums(stored: Stored) -> Stored:
    md5, crc, size = hashlib.md5(), 0, 0
    for piece in chunks(Path(stored.path)):
        md5.update(piece)
        crc = crc64(piece, crc)
        size += len(piece)
    return replace(stored, size=size, etag=md5.hexdigest(), crc64=crc)
