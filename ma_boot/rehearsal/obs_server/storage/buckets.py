"""The stored objects: one file each in a directory on disk, with an index in memory."""

from __future__ import annotations

import json
import os
import shutil
import struct
import threading
import uuid
from pathlib import Path
from typing import BinaryIO, Dict, Iterable, List, Optional, Tuple

from ma_boot.rehearsal.obs_server.storage.listing import Page, page
from ma_boot.rehearsal.obs_server.storage.objects import Stored
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal

_LENGTH = struct.Struct(">I")


class Bucket:
    """The objects of one bucket; any thread may ask for them at any time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._objects: Dict[str, Stored] = {}
        self._sorted: Optional[List[str]] = []
        for path in sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime_ns):
            stored = _read_record(path)
            if stored is None:  # the server was killed while it arrived
                path.unlink()
            else:
                self._put(stored)

    def new_file(self) -> Path:
        """Where the next object's content may be written."""
        return self._directory / uuid.uuid4().hex

    def keep(self, stored: Stored) -> Stored:
        """Makes a content that is written at `stored.path` the object of its key."""
        with open(stored.path, "ab") as file:
            _write_record(file, stored)
        with self._lock:
            self._put(stored)
        return stored

    def _put(self, stored: Stored) -> None:
        earlier = self._objects.get(stored.key)
        self._objects[stored.key] = stored
        if earlier is None:
            self._sorted = None
        elif earlier.path != stored.path:
            os.unlink(earlier.path)  # who is reading it has it open

    def get(self, key: str) -> Stored:
        """The object of a key; raises `Refusal`."""
        found = self._objects.get(key)
        if found is None:
            raise Refusal("NoSuchKey", "the object does not exist")
        return found

    def open(self, key: str) -> Tuple[Stored, BinaryIO]:
        """The object and its content: of one and the same moment."""
        while True:
            stored = self.get(key)
            with self._lock:
                if self._objects.get(key) is stored:
                    return stored, open(stored.path, "rb", buffering=0)

    def delete(self, key: str) -> None:
        """Deletes an object; that there is none is no error, as in OBS."""
        with self._lock:
            stored = self._objects.pop(key, None)
            if stored is not None:
                self._sorted = None
                self._unlink(stored)

    def _unlink(self, stored: Stored) -> None:
        os.unlink(stored.path)

    def page(self, prefix: str, marker: str, delimiter: str, limit: int) -> Tuple[Page, List[Stored]]:
        """One page of the listing and the objects on it."""
        with self._lock:
            if self._sorted is None:
                self._sorted = sorted(self._objects)
            found = page(self._sorted, prefix, marker, delimiter, limit)
            return found, [self._objects[key] for key in found.keys]

    @property
    def is_empty(self) -> bool:
        """There is no object."""
        return not self._objects


class Buckets:
    """All buckets below a directory; those that an earlier server left there are read again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)
        self._buckets = {path.name: self._bucket(path) for path in root.iterdir() if path.is_dir()}

    def _bucket(self, directory: Path) -> Bucket:
        return Bucket(directory)

    def names(self) -> Iterable[str]:
        """The names in order."""
        return sorted(self._buckets)

    def get(self, name: str) -> Bucket:
        """The bucket; raises `Refusal`."""
        found = self._buckets.get(name)
        if found is None:
            raise Refusal("NoSuchBucket", "the bucket does not exist")
        return found

    def create(self, name: str) -> None:
        """Makes a bucket, unless it exists."""
        letters = name.replace("-", "").replace(".", "")
        if not 3 <= len(name) <= 63 or not letters.isalnum() or not name.isascii() or name != name.lower():
            raise Refusal("InvalidBucketName", "3 to 63 lower-case letters, digits, hyphens and dots")
        if name not in self._buckets:
            (self._root / name).mkdir()
            self._buckets[name] = self._bucket(self._root / name)

    def delete(self, name: str) -> None:
        """Deletes an empty bucket."""
        if not self.get(name).is_empty:
            raise Refusal("BucketNotEmpty", "the bucket has objects")
        del self._buckets[name]
        shutil.rmtree(self._root / name)


def _write_record(file: BinaryIO, stored: Stored) -> None:
    record = json.dumps(vars(stored)).encode()
    file.write(record + _LENGTH.pack(len(record)))


def _read_record(path: Path) -> Optional[Stored]:
    """What stands after the content of a file; None when it is not complete."""
    try:
        with path.open("rb") as file:
            file.seek(-_LENGTH.size, os.SEEK_END)
            (length,) = _LENGTH.unpack(file.read())
            file.seek(-_LENGTH.size - length, os.SEEK_END)
            content, record = file.tell(), json.loads(file.read(length))
            stored = Stored(**{**record, "path": str(path)})
    except (OSError, ValueError, TypeError):
        return None
    return stored if stored.size == content else None
