"""Object store interface, for transfers and `path_mapping.file`.

An abstract class rather than a protocol: Python 3.7, which training code may run on, has no
`typing.Protocol`.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Callable, NamedTuple

from path_mapping.errors import StoreError
from path_mapping.localfs.hash_progress import HashProgress
from path_mapping.stores.objects import ObjectState, StoredObject
from path_mapping.stores.signer import Signer
from path_mapping.stores.units import MultipartUpload, UnitRunner

# Objects that one request deletes (API reference, "Batch Deleting Objects").
MOST_DELETED = 1000


class UnfinishedUpload(NamedTuple):
    """A multipart upload in a bucket, of any client: `began` is in seconds since the epoch, 0 if unknown."""

    key: str
    upload: str
    began: float


class Store(ABC):
    """An object store. Its methods raise `StoreError`, and the errors of functions passed to them.

    With a `signer`, its objects can be reached by signed HTTP requests, which other processes can make, too.
    Files of `multipart_from` bytes or more are uploaded in parts of `part` bytes; a store without multipart
    uploads has an infinite `multipart_from`. `hashing` counts the bytes that a listing reads for checksums.
    """

    hashing: HashProgress | None = None
    signer: Signer | None = None
    multipart_from: float = math.inf
    part: int = 0

    @abstractmethod
    def runner(self, closing: threading.Event) -> UnitRunner:
        """Returns a runner of units for one thread; work in other threads ends when `closing` is set."""

    @abstractmethod
    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """Yields the objects whose keys begin with the prefix, ordered by key.

        Raises:
            NotFound: there is no such bucket.
            StoreError: the listing failed; objects that were yielded before are valid.
        """

    @abstractmethod
    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """Yields the entries directly below the prefix, which is empty or ends with `/`.

        A directory is a `StoredObject` whose key ends with `/`; the marker of the prefix itself is left out.
        Raises `NotFound` if there is no such bucket.
        """

    @abstractmethod
    def find(self, bucket: str, key: str) -> ObjectState | None:
        """Returns the object's state; None if it does not exist."""

    @abstractmethod
    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """Yields the object's bytes in pieces; closing the iterator ends the request.

        Raises:
            NotFound: there is no such object.
            Unreachable: after the last piece at the latest, other bytes arrived than were stored.
        """

    @abstractmethod
    def read_from(self, bucket: str, key: str, offset: int, version: str = "") -> Iterator[bytes]:
        """Yields the object's bytes from `offset` on; closing the iterator ends the request.

        Only the length is checked, as the caller may read a part only.

        Raises:
            NotFound: there is no such object.
            Replaced: it is not this `version` of `ObjectState`; an empty one is any version.
            Unreachable: the body ended early.
        """

    @abstractmethod
    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> str:
        """Stores a local file, completely or not at all; `md5` (hex) is that of its content.

        Returns the ETag of the object as listings have it; it is empty if that is not known. `sent` is called
        with the number of bytes of each piece sent, and may raise to abort. Raises `Unreachable` if the
        content that arrived is not the one that was sent.
        """

    @abstractmethod
    def write_bytes(self, bucket: str, key: str, content: bytes) -> str:
        """Stores a small object, completely or not at all; needs no space on a disk here.

        Returns what `write` returns. Raises `Unreachable` if the content that arrived is not the one that was
        sent.
        """

    @abstractmethod
    def copy(self, bucket: str, key: str, size: int, to_bucket: str, to_key: str) -> None:
        """Copies an object of `size` bytes within the store.

        Raises:
            NotFound: there is no such object.
            Refused: the store cannot copy it.
        """

    @abstractmethod
    def delete(self, bucket: str, key: str) -> None:
        """Deletes an object; it need not exist."""

    def delete_all(self, bucket: str, keys: Sequence[str]) -> None:
        """Deletes at most `MOST_DELETED` objects, which need not exist.

        Raises `StoreError` if some could not be deleted, of which it names one.
        """
        for key in keys:
            self.delete(bucket, key)

    def place(self, bucket: str, key: str) -> str:
        """Returns the local path of the object; empty if it is not on this machine."""
        return ""

    def region(self, bucket: str) -> str:
        """Returns the region of a bucket; empty if the store has none.

        Raises:
            NotFound: there is no such bucket.
            Refused: the credentials do not permit to read the bucket's metadata.
        """
        return ""

    def begin_parts(self, bucket: str, key: str, left: tuple[str, ...] = ()) -> MultipartUpload:
        """Begins a multipart upload, or resumes one; uploads of other processes are left alone.

        `left` are the ids of our own earlier uploads of this key, the oldest first. The last one is resumed,
        unless it has gone; the others are aborted.
        """
        raise NotImplementedError

    def abort_parts(self, bucket: str, key: str, upload: str) -> None:
        """Aborts a multipart upload, which deletes its parts; it need not exist."""
        raise NotImplementedError

    def unfinished(self, bucket: str, prefix: str) -> Iterator[UnfinishedUpload]:
        """Yields the multipart uploads, of all clients, whose keys begin with the prefix."""
        return iter(())

    def try_write(self, bucket: str, key: str) -> None:
        """Checks the permission to write a key, without leaving an object or an upload.

        Raises:
            NotFound: there is no such bucket.
            Refused: the credentials do not permit it.
        """
        begun = self.begin_parts(bucket, key)
        with suppress(StoreError):  # aborting is not permitted: an upload without parts costs nothing
            self.abort_parts(bucket, key, begun.upload)
