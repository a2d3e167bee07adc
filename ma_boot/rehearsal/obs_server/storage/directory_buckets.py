"""Buckets that are plain directories, as `--obs-root` has them: `obs://bucket/key` is ROOT/bucket/key."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Iterator, List, Tuple

from ma_boot.rehearsal.obs_server.storage.buckets import Bucket, Buckets, ListingPage
from ma_boot.rehearsal.obs_server.storage.objects import BucketObject
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal
from path_mapping.errors import UnsafeTarget
from path_mapping.localfs import TEMPORARY, chunks, contained, crc64, is_temporary, unsafe

_NO_CONTENT = os.devnull  # the file of an object `key/`, which is an empty directory


class DirectoryBucket(Bucket):
    """The files that a directory had when the server started, and the objects that were put since.

    Checksums are computed on the first access. Headers and metadata last as long as the server, since a file
    has no place for them.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, _found(directory))

    def new_file(self) -> Path:
        """A new file on the bucket's own file system, with a name that listings skip."""
        return self._directory / f".put.{uuid.uuid4().hex[:12]}{TEMPORARY}"

    def put(self, new: BucketObject) -> BucketObject:
        """Moves what was written to the file of its key; raises `Refusal` if that is not a valid path."""
        name = new.key[:-1] if new.key.endswith("/") else new.key
        target = self._directory / name
        try:
            if unsafe(name):
                raise Refusal("InvalidArgument", f"no file can have this key: {unsafe(name)}")
            contained(target, self._directory)
            moved = replace(new, path=self._move(new, target))
        except (OSError, UnsafeTarget, Refusal) as error:
            os.unlink(new.path)
            raise error if isinstance(error, Refusal) else Refusal("InvalidArgument", str(error)) from error
        with self._lock:
            self._index(moved)
        return moved

    def _move(self, new: BucketObject, target: Path) -> str:
        if not new.key.endswith("/"):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(new.path, target)
            return str(target)
        if new.size:
            raise Refusal("InvalidArgument", "no file can have a key that ends with /")
        target.mkdir(parents=True, exist_ok=True)
        os.unlink(new.path)
        return _NO_CONTENT

    def get(self, key: str) -> BucketObject:
        """The object of a key, with its checksums; raises `Refusal` if there is none."""
        found = super().get(key)
        return found if found.etag else self._with_checksums(found)

    def _with_checksums(self, found: BucketObject) -> BucketObject:
        try:
            checked = _with_checksums(found)
        except FileNotFoundError:
            raise Refusal("NoSuchKey", "the file of this object no longer exists") from None
        with self._lock:
            if self._objects.get(found.key) is found:
                self._objects[found.key] = checked
        return checked

    def _unlink(self, deleted: BucketObject) -> None:
        with contextlib.suppress(OSError):  # it no longer exists, or is a directory that has files by now
            if deleted.key.endswith("/"):
                os.rmdir(self._directory / deleted.key)
            else:
                os.unlink(deleted.path)

    def page(
        self, prefix: str, marker: str, delimiter: str, limit: int
    ) -> Tuple[ListingPage, List[BucketObject]]:
        """One page of the listing, and the objects on it with their checksums."""
        found, listed = super().page(prefix, marker, delimiter, limit)
        return found, [one if one.etag else self._with_checksums(one) for one in listed]


class DirectoryBuckets(Buckets):
    """The directories below ROOT."""

    def _bucket(self, directory: Path) -> Bucket:
        return DirectoryBucket(directory)


def _found(root: Path) -> Iterator[BucketObject]:
    """An object for each file and each empty directory, as `DirectoryStore` lists them."""
    for directory, directories, files in os.walk(root):
        here = Path(directory).relative_to(root).as_posix()
        start = "" if here == "." else here + "/"
        if start and not files and not directories:
            yield BucketObject(start, 0, "", 0, os.stat(directory).st_mtime, path=_NO_CONTENT)
        for path in (Path(directory, name) for name in files if not is_temporary(name)):
            if path.is_file():
                state = path.stat()
                yield BucketObject(start + path.name, state.st_size, "", 0, state.st_mtime, path=str(path))


def _with_checksums(found: BucketObject) -> BucketObject:
    md5, crc, size = hashlib.md5(), 0, 0
    for piece in chunks(Path(found.path)):
        md5.update(piece)
        crc = crc64(piece, crc)
        size += len(piece)
    return replace(found, size=size, etag=md5.hexdigest(), crc64=crc)
