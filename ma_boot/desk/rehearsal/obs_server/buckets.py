"""Buckets that are plain directories: `obs://bucket/key` is ROOT/bucket/key."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from path_mapping.errors import UnsafeTarget
from path_mapping.localfs.atomic_file import check_contained
from path_mapping.localfs.hash_progress import HashProgress
from path_mapping.localfs.names import TEMPORARY, is_temporary, name_problem
from path_mapping.localfs.source_file import CHUNK, chunks, crc64

STATUS = {  # 400 for all others
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


MAX_KEYS = 1000  # OBS API reference, "Listing Objects in a Bucket"
_LAST = chr(0x10FFFF)  # sorts after every character of a key


@dataclass(frozen=True)
class ListingPage:
    """One page of a listing; `next_marker` is empty on the last one."""

    keys: tuple[str, ...]
    prefixes: tuple[str, ...]
    next_marker: str


def list_page(keys: Sequence[str], prefix: str, marker: str, delimiter: str, limit: int) -> ListingPage:
    """The first `limit` of the sorted keys that come after the marker and begin with the prefix.

    Keys with the delimiter after the prefix are rolled up into one common prefix each. A common prefix that
    the marker names, or points into, has already been listed.
    """
    listed: list[str] = []
    prefixes: list[str] = []
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
        if len(listed) + len(prefixes) >= limit:
            return ListingPage(tuple(listed), tuple(prefixes), last)
        last = common or key
        if common:
            prefixes.append(common)
            at = bisect_left(keys, common + _LAST, at)
        else:
            listed.append(key)
            at += 1
    return ListingPage(tuple(listed), tuple(prefixes), "")


_NO_CONTENT = os.devnull  # the file of an object `key/`, which is a directory
_FileState = tuple[int, int, int]  # inode, size, time of the last change


class Bucket:
    """The files and empty directories of a directory, as they are at each request: others write there, too.

    Checksums are computed on the first access, and kept while the file stays the same. So are headers and
    metadata, since a file has no place for them. Thread-safe; a request that appends holds `appending`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.hashing = HashProgress()
        self._lock = threading.Lock()
        self.appending = threading.Lock()
        self._known: dict[str, tuple[_FileState, BucketObject]] = {}

    def new_file(self) -> Path:
        """A new file on the bucket's own file system, with a name that listings skip."""
        return self._directory / f".put.{uuid.uuid4().hex[:12]}{TEMPORARY}"

    def put(self, new: BucketObject) -> BucketObject:
        """Moves what was written to the file of its key; raises `Refusal` if that is not a valid path."""
        try:
            state = _state(os.stat(new.path))
            with self._lock:
                moved = replace(new, path=self._move(new, self._path(new.key)))
                self._known[new.key] = (state, moved)
        except (OSError, Refusal) as error:
            os.unlink(new.path)
            raise error if isinstance(error, Refusal) else Refusal("InvalidArgument", str(error)) from error
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
        if key in self._known and not key.endswith("/"):
            state, known = self._known[key]
            with contextlib.suppress(OSError):
                if _state(os.stat(known.path)) == state:
                    return known
        stored, file = self.open(key)
        file.close()
        return stored

    def open(self, key: str) -> tuple[BucketObject, BinaryIO]:
        """An object and its content, consistent with each other; raises `Refusal` if there is none."""
        try:
            path = self._path(key)
            if key.endswith("/"):
                return self._directory_object(key, path), open(_NO_CONTENT, "rb", buffering=0)
            if not path.is_file():
                raise Refusal("NoSuchKey", "there is no such file")
            file: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115 -- the response closes it
        except (FileNotFoundError, NotADirectoryError):
            raise Refusal("NoSuchKey", "the file of this object no longer exists") from None
        except Refusal as error:
            self._known.pop(key, None)
            raise Refusal("NoSuchKey", str(error)) from None
        try:
            return self._described(key, path, file), file
        except BaseException:
            file.close()
            raise

    def _directory_object(self, key: str, path: Path) -> BucketObject:
        """The object of a directory that was put, or is empty."""
        if not path.is_dir() or (key not in self._known and any(path.iterdir())):
            raise Refusal("NoSuchKey", "there is no such directory, or it has files")
        if key in self._known:
            return self._known[key][1]
        nothing = hashlib.md5().hexdigest()
        return BucketObject(key, 0, nothing, 0, path.stat().st_mtime, path=_NO_CONTENT)

    def _described(self, key: str, path: Path, file: BinaryIO) -> BucketObject:
        now = os.fstat(file.fileno())
        if key in self._known and self._known[key][0] == _state(now):
            return self._known[key][1]
        md5, crc, size = hashlib.md5(), 0, 0
        for piece in self.hashing.counted(iter(partial(file.read, CHUNK), b"")):
            md5.update(piece)
            crc = crc64(piece, crc)
            size += len(piece)
        file.seek(0)
        stored = BucketObject(key, size, md5.hexdigest(), crc, now.st_mtime, path=str(path))
        self._known[key] = (_state(now), stored)
        return stored

    def delete(self, key: str) -> None:
        """Deletes an object; as in OBS, a missing one is not an error, and no empty directory stays."""
        with self._lock, contextlib.suppress(OSError, Refusal):  # a directory may have files by now
            path = self._path(key)
            self._known.pop(key, None)
            path.rmdir() if key.endswith("/") else path.unlink()
            while (path := path.parent) != self._directory:
                if f"{path.relative_to(self._directory).as_posix()}/" in self._known:
                    break
                path.rmdir()

    def page(
        self, prefix: str, marker: str, delimiter: str, limit: int
    ) -> tuple[ListingPage, list[BucketObject]]:
        """One page of the listing, and the objects on it with their checksums."""
        page = list_page(sorted(self._keys(prefix)), prefix, marker, delimiter, limit)
        listed = []
        self.hashing.expect(sum(map(self._unread, page.keys)))
        for key in page.keys:
            with contextlib.suppress(Refusal):  # it has been removed meanwhile
                listed.append(self.get(key))
        return page, listed

    def _unread(self, key: str) -> int:
        """Returns the bytes that checksums of an object need; 0 if they are known, or it is gone."""
        with contextlib.suppress(OSError, Refusal):
            now = os.stat(self._path(key))
            if not key.endswith("/") and (key not in self._known or self._known[key][0] != _state(now)):
                return now.st_size
        return 0

    @property
    def is_empty(self) -> bool:
        """True if the bucket has no objects."""
        return next(self._keys(""), None) is None

    def _keys(self, prefix: str) -> Iterator[str]:
        """The keys of the files and empty directories in the directory of a prefix, and below it."""
        start = prefix[: prefix.rfind("/") + 1]
        try:
            top = self._path(f"{start}x").parent
        except Refusal:
            return
        yield from self._below(str(top), start)

    def _below(self, directory: str, start: str) -> Iterator[str]:
        is_object = bool(start)
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    is_object = start in self._known
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._below(entry.path, f"{start}{entry.name}/")
                    elif entry.is_file() and not is_temporary(entry.name):
                        yield start + entry.name
        except (FileNotFoundError, NotADirectoryError):  # it has been removed meanwhile
            return
        if is_object:
            yield start

    def _path(self, key: str) -> Path:
        """The file of a key; raises `Refusal` if no file of the bucket can have it."""
        name = key[:-1] if key.endswith("/") else key
        if problem := name_problem(name):
            raise Refusal("InvalidArgument", f"no file can have this key: {problem}")
        try:
            check_contained(self._directory / name, self._directory)
        except UnsafeTarget as error:
            raise Refusal("InvalidArgument", str(error)) from error
        return self._directory / name


class Buckets:
    """The directories below ROOT, as they are at each request."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._buckets: dict[str, Bucket] = {}
        self.hashing = HashProgress()
        root.mkdir(parents=True, exist_ok=True)

    def new_bucket(self, directory: Path) -> Bucket:
        """The bucket that a directory is."""
        bucket = Bucket(directory)
        bucket.hashing = self.hashing
        return bucket

    def names(self) -> list[str]:
        """The sorted names."""
        return sorted(path.name for path in self._root.iterdir() if path.is_dir())

    def get(self, name: str) -> Bucket:
        """The bucket of this name; raises `Refusal` if there is none."""
        if name not in self.names():
            self._buckets.pop(name, None)
            raise Refusal("NoSuchBucket", "the bucket does not exist")
        return self._buckets.setdefault(name, self.new_bucket(self._root / name))

    def create(self, name: str) -> None:
        """Creates a bucket unless it exists; raises `Refusal` for an invalid name."""
        letters = name.replace("-", "").replace(".", "")
        if not 3 <= len(name) <= 63 or not letters.isalnum() or not name.isascii() or name != name.lower():
            raise Refusal("InvalidBucketName", "expected 3 to 63 lowercase letters, digits, hyphens and dots")
        (self._root / name).mkdir(exist_ok=True)

    def delete(self, name: str) -> None:
        """Deletes a bucket; raises `Refusal` if it does not exist or is not empty."""
        if not self.get(name).is_empty:
            raise Refusal("BucketNotEmpty", "the bucket has objects")
        shutil.rmtree(self._root / name)


def _state(state: os.stat_result) -> _FileState:
    return state.st_ino, state.st_size, state.st_mtime_ns


def join(sources: Iterable[str], path: Path) -> tuple[int, int]:
    """Writes the contents of files into one; returns its size and CRC-64."""
    crc = 0
    with path.open("wb", buffering=0) as target:
        for source in sources:
            for piece in chunks(Path(source)):
                crc = crc64(piece, crc)
                target.write(piece)
        return target.tell(), crc
