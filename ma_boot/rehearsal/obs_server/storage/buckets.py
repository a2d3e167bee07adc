"""Buckets: an index in memory, and one file for the content of each object."""

from __future__ import annotations

import os
import shutil
import threading
import uuid
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Dict, Iterable, List, Optional, Sequence, Tuple

from ma_boot.rehearsal.obs_server.storage.objects import BucketObject
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal

MAX_KEYS = 1000  # OBS API reference, "Listing Objects in a Bucket"
_LAST = chr(0x10FFFF)  # sorts after every character of a key


@dataclass(frozen=True)
class ListingPage:
    """One page of a listing; `next_marker` is empty on the last one."""

    keys: Tuple[str, ...]
    prefixes: Tuple[str, ...]
    next_marker: str


class Bucket:
    """The objects of one bucket. Thread-safe; who makes an object longer holds `appending`."""

    region = ""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self.appending = threading.Lock()
        self._objects: Dict[str, BucketObject] = {}
        self._sorted: Optional[List[str]] = None

    def new_file(self) -> Path:
        """A new file for the content of an object."""
        return self._directory / uuid.uuid4().hex

    def put(self, new: BucketObject) -> BucketObject:
        """Stores what was written to `new.path` as the object of its key."""
        with self._lock:
            earlier = self._objects.get(new.key)
            self._objects[new.key] = new
            if earlier is None:
                self._sorted = None
            else:
                os.unlink(earlier.path)  # readers have it open already
        return new

    def get(self, key: str) -> BucketObject:
        """The object of a key; raises `Refusal` if there is none."""
        found = self._objects.get(key)
        if found is None:
            raise Refusal("NoSuchKey", "the object does not exist")
        return found

    def open(self, key: str) -> Tuple[BucketObject, BinaryIO]:
        """An object and its content, consistent with each other; raises `Refusal` if there is none."""
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
                os.unlink(found.path)

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
    """All buckets below a directory; existing directories are buckets."""

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
        """The bucket of this name; raises `Refusal` if there is none."""
        found = self._buckets.get(name)
        if found is None:
            raise Refusal("NoSuchBucket", "the bucket does not exist")
        return found

    def create(self, name: str, region: str = "") -> None:
        """Creates a bucket unless it exists; raises `Refusal` for an invalid name."""
        letters = name.replace("-", "").replace(".", "")
        if not 3 <= len(name) <= 63 or not letters.isalnum() or not name.isascii() or name != name.lower():
            raise Refusal("InvalidBucketName", "expected 3 to 63 lowercase letters, digits, hyphens and dots")
        if name not in self._buckets:
            (self._root / name).mkdir(exist_ok=True)
            self._buckets[name] = self._bucket(self._root / name)
            self._buckets[name].region = region

    def delete(self, name: str) -> None:
        """Deletes a bucket; raises `Refusal` if it does not exist or is not empty."""
        if not self.get(name).is_empty:
            raise Refusal("BucketNotEmpty", "the bucket has objects")
        del self._buckets[name]
        shutil.rmtree(self._root / name)


def list_page(keys: Sequence[str], prefix: str, marker: str, delimiter: str, limit: int) -> ListingPage:
    """The first `limit` of the sorted keys that come after the marker and begin with the prefix.

    Keys with the delimiter after the prefix are rolled up into one common prefix each. A common prefix that
    the marker names, or points into, has already been listed.
    """
    found: List[str] = []
    prefixes: List[str] = []
    last = ""
    at = max(bisect_left(keys, prefix), bisect_right(keys, marker))
    while at < len(keys) and keys[at].startswith(prefix):
        key, common = keys[at], ""
        if delimiter:
            end = key.find(delimiter, len(prefix))
            common = key[: end + len(delimiter)] if end >= 0 else ""
        if common and marker.startswith(common):
            at = bisect_left(keys, common + _LAST, at)
            continue
        if len(found) + len(prefixes) >= limit:
            return ListingPage(tuple(found), tuple(prefixes), last)
        last = common or key
        if common:
            prefixes.append(common)
            at = bisect_left(keys, common + _LAST, at)
        else:
            found.append(key)
            at += 1
    return ListingPage(tuple(found), tuple(prefixes), "")
