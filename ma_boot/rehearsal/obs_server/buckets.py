"""Buckets and multipart uploads: an index in memory, and one file for the content of each object or part."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import uuid
from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from path_mapping.localfs import chunks, crc64

STATUS = {  # that of all others is 400
    "AccessDenied": 403,
    "BucketNotEmpty": 409,
    "ExpiredToken": 403,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidRange": 416,
    "InvalidToken": 403,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchUpload": 404,
    "NotImplemented": 501,
    "ObjectNotAppendable": 409,
    "PositionNotEqualToLength": 409,
    "PreconditionFailed": 412,
    "RequestTimeTooSkewed": 403,
    "SignatureDoesNotMatch": 403,
}


class Refusal(Exception):
    """A request fails with an error; `code` is what OBS calls the error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS.get(code, 400)


@dataclass(frozen=True)
class BucketObject:
    """An object: the first `size` bytes of the file `path` are its content.

    `headers` are the standard ones (Content-Type, ...) and `metadata` the user's own, as they were sent;
    `modified` is in seconds since the epoch.
    """

    key: str
    size: int
    etag: str
    crc64: int
    modified: float
    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    appendable: bool = False
    path: str = ""


@dataclass(frozen=True)
class UploadPart:
    """One part of an upload: `path` is the file of its content, `etag` the MD5 of it."""

    number: int
    size: int
    etag: str
    modified: float
    path: str


@dataclass(frozen=True)
class Upload:
    """A multipart upload; `headers` and `metadata` are for the object that it becomes."""

    id: str
    bucket: str
    key: str
    initiated: float
    headers: Mapping[str, str]
    metadata: Mapping[str, str]
    parts: Dict[int, UploadPart] = field(default_factory=dict)


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


MIN_PART_BYTES = 100 << 10  # OBS API reference, "Uploading Parts": only the last part may be smaller
MAX_PARTS = 10_000


class Uploads:
    """All uploads of a server, with the files of their parts in one directory. Thread-safe.

    A client that has waited too long asks again while its first request is still being answered. So what
    ends an upload, or adds a part to it, waits for the others, and who comes too late is told `NoSuchUpload`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._uploads: Dict[str, Upload] = {}
        self._changing: Dict[str, threading.Lock] = {}
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)

    def initiate(
        self, bucket: str, key: str, headers: Mapping[str, str], metadata: Mapping[str, str], now: float
    ) -> Upload:
        """Starts an upload."""
        upload = Upload(uuid.uuid4().hex, bucket, key, now, headers, metadata)
        with self._lock:
            self._uploads[upload.id] = upload
            self._changing[upload.id] = threading.Lock()
        return upload

    def get(self, bucket: str, key: str, upload_id: str) -> Upload:
        """The upload of this key with this ID; raises `Refusal` if there is none."""
        found = self._uploads.get(upload_id)
        if found is None or (found.bucket, found.key) != (bucket, key):
            raise Refusal("NoSuchUpload", "the upload does not exist, or was completed or aborted")
        return found

    def new_file(self) -> Path:
        """A new file for the content of a part."""
        return self._root / uuid.uuid4().hex

    def add(self, upload: Upload, part: UploadPart) -> None:
        """Adds a part or replaces it; raises `Refusal` and deletes its file if the upload has ended."""
        try:
            with self._change(upload):
                earlier = upload.parts.get(part.number)
                upload.parts[part.number] = part
        except Refusal:
            os.unlink(part.path)
            raise
        if earlier is not None:
            os.unlink(earlier.path)

    def of(self, bucket: str) -> List[Upload]:
        """The uploads of a bucket, sorted by key and time of initiation."""
        with self._lock:
            found = [upload for upload in self._uploads.values() if upload.bucket == bucket]
        return sorted(found, key=lambda upload: (upload.key, upload.initiated, upload.id))

    def complete(
        self, upload: Upload, wanted: Sequence[Tuple[int, str]], bucket: Bucket, now: float
    ) -> BucketObject:
        """Assembles the object from the wanted parts, which are pairs of number and ETag.

        Raises `Refusal` if a part is missing, too small or out of order.
        """
        with self._change(upload):
            parts = _chosen(upload, wanted)
            path = bucket.new_file()
            size, crc = join([part.path for part in parts], path)
            md5s = b"".join(bytes.fromhex(part.etag) for part in parts)
            completed = BucketObject(
                upload.key,
                size,
                f"{hashlib.md5(md5s).hexdigest()}-{len(parts)}",
                crc,
                now,
                upload.headers,
                upload.metadata,
                path=str(path),
            )
            bucket.put(completed)
            self._forget(upload)
        return completed

    def abort(self, upload: Upload) -> None:
        """Forgets an upload and deletes its parts; raises `Refusal` if it has ended meanwhile."""
        with self._change(upload):
            self._forget(upload)

    @contextmanager
    def _change(self, upload: Upload) -> Iterator[None]:
        """For one at a time; raises `Refusal` if the upload has ended."""
        with self._changing.get(upload.id, threading.Lock()):
            self.get(upload.bucket, upload.key, upload.id)
            yield

    def _forget(self, upload: Upload) -> None:
        with self._lock:
            del self._uploads[upload.id]
            del self._changing[upload.id]
        for part in upload.parts.values():
            os.unlink(part.path)


def _chosen(upload: Upload, wanted: Sequence[Tuple[int, str]]) -> List[UploadPart]:
    numbers = [number for number, _ in wanted]
    if not numbers:
        raise Refusal("MalformedXML", "expected at least one part")
    if any(later <= earlier for earlier, later in zip(numbers, numbers[1:])):
        raise Refusal("InvalidPartOrder", "the part numbers are not in ascending order")
    parts = []
    for number, etag in wanted:
        part = upload.parts.get(number)
        if part is None or part.etag != etag.strip('"').lower():
            raise Refusal("InvalidPart", f"there is no part {number} with this ETag")
        parts.append(part)
    if any(part.size < MIN_PART_BYTES for part in parts[:-1]):
        raise Refusal("EntityTooSmall", f"only the last part may have fewer than {MIN_PART_BYTES} bytes")
    return parts


def join(sources: Iterable[str], path: Path) -> Tuple[int, int]:
    """Writes the contents of files into one; returns its size and CRC-64."""
    crc = 0
    with path.open("wb", buffering=0) as target:
        for source in sources:
            for piece in chunks(Path(source)):
                crc = crc64(piece, crc)
                target.write(piece)
        return target.tell(), crc
