"""Buckets: a directory with one file for each object, and an index in memory."""

from __future__ import annotations

import json
import os
import shutil
import struct
import threading
import uuid
from pathlib import Path
from typing import BinaryIO, Dict, Iterable, List, Optional, Tuple

from ma_boot.rehearsal.obs_server.storage.listing import ListingPage, list_page
from ma_boot.rehearsal.obs_server.storage.objects import BucketObject
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal

_LENGTH = struct.Struct(">I")


class Bucket:
    """The objects of one bucket. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._objects: Dict[str, BucketObject] = {}
        self._sorted: Optional[List[str]] = []
        for path in sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime_ns):
            found = _read_record(path)
            if found is None:  # the server was killed while receiving it
                path.unlink()
            else:
                self._index(found)

    def new_file(self) -> Path:
        """A new file for the content of an object."""
        return self._directory / uuid.uuid4().hex

    def put(self, new: BucketObject) -> BucketObject:
        """Stores the content that was written to `new.path` as the object of its key.

        Raises:
            Refusal: the bucket cannot have an object of this key.
        """
        with open(new.path, "ab") as file:
            _write_record(file, new)
        with self._lock:
            self._index(new)
        return new

    def _index(self, new: BucketObject) -> None:
        earlier = self._objects.get(new.key)
        self._objects[new.key] = new
        if earlier is None:
            self._sorted = None
        elif earlier.path != new.path:
            os.unlink(earlier.path)  # readers have it open already

    def get(self, key: str) -> BucketObject:
        """The object of a key.

        Raises:
            Refusal: there is none.
        """
        found = self._objects.get(key)
        if found is None:
            raise Refusal("NoSuchKey", "the object does not exist")
        return found

    def open(self, key: str) -> Tuple[BucketObject, BinaryIO]:
        """An object and its content, consistent with each other.

        Raises:
            Refusal: there is none.
        """
        while True:
            found = self.get(key)
            with self._lock:
                if self._objects.get(key) is found:
                    return found, open(found.path, "rb", buffering=0)

    def delete(self, key: str) -> None:
        """Deletes an object; as in OBS, a missing one is not an error."""
        with self._lock:
            found = self._objects.pop(key, None)
            if found is not None:
                self._sorted = None
                self._unlink(found)

    def _unlink(self, deleted: BucketObject) -> None:
        os.unlink(deleted.path)

    def page(
        self, prefix: str, marker: str, delimiter: str, limit: int
    ) -> Tuple[ListingPage, List[BucketObject]]:
        """One page of the listing, and the objects on it."""
        with self._lock:
            if self._sorted is None:
                self._sorted = sorted(self._objects)
            found = list_page(self._sorted, prefix, marker, delimiter, limit)
            return found, [self._objects[key] for key in found.keys]

    @property
    def is_empty(self) -> bool:
        """Whether the bucket has no objects."""
        return not self._objects


class Buckets:
    """All buckets below a directory, including those that an earlier server left there."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)
        self._buckets = {path.name: self._bucket(path) for path in root.iterdir() if path.is_dir()}

    def _bucket(self, directory: Path) -> Bucket:
        return Bucket(directory)

    def names(self) -> Iterable[str]:
        """The sorted names."""
        return sorted(self._buckets)

    def get(self, name: str) -> Bucket:
        """The bucket of this name.

        Raises:
            Refusal: there is none.
        """
        found = self._buckets.get(name)
        if found is None:
            raise Refusal("NoSuchBucket", "the bucket does not exist")
        return found

    def create(self, name: str) -> None:
        """Creates a bucket unless it exists.

        Raises:
            Refusal: the name is invalid.
        """
        letters = name.replace("-", "").replace(".", "")
        if not 3 <= len(name) <= 63 or not letters.isalnum() or not name.isascii() or name != name.lower():
            raise Refusal("InvalidBucketName", "expected 3 to 63 lowercase letters, digits, hyphens and dots")
        if name not in self._buckets:
            (self._root / name).mkdir()
            self._buckets[name] = self._bucket(self._root / name)

    def delete(self, name: str) -> None:
        """Deletes an empty bucket.

        Raises:
            Refusal: it does not exist, or is not empty.
        """
        if not self.get(name).is_empty:
            raise Refusal("BucketNotEmpty", "the bucket has objects")
        del self._buckets[name]
        shutil.rmtree(self._root / name)


def _write_record(file: BinaryIO, stored: BucketObject) -> None:
    record = json.dumps(vars(stored)).encode()
    file.write(record + _LENGTH.pack(len(record)))


def _read_record(path: Path) -> Optional[BucketObject]:
    """The record that follows the content in a file; None if it is incomplete."""
    try:
        with path.open("rb") as file:
            file.seek(-_LENGTH.size, os.SEEK_END)
            (length,) = _LENGTH.unpack(file.read())
            file.seek(-_LENGTH.size - length, os.SEEK_END)
            content, record = file.tell(), json.loads(file.read(length))
            found = BucketObject(**{**record, "path": str(path)})
    except (OSError, ValueError, TypeError):
        return None
    return found if found.size == content else None
