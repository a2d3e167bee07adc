"""What a transfer and `path_mapping.file` need of a place that holds objects.

An abstract class rather than a protocol: Python 3.7, which training code may run on, has no
`typing.Protocol`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Callable, NamedTuple

from path_mapping.errors import StoreError
from path_mapping.stores.http_connection import OpenConnections
from path_mapping.stores.objects import ObjectState, StoredObject
from path_mapping.stores.signer import Signer
from path_mapping.stores.units import MultipartUpload, UnitRunner

MOST_DELETED = 1000  # objects by one request (API reference, "Batch Deleting Objects")


class UnfinishedUpload(NamedTuple):
    """A multipart upload in a bucket, by whomever: `began` is in seconds since the epoch, 0 if unknown."""

    key: str
    upload: str
    began: float


class Store(ABC):
    """Holds objects. Its methods raise `StoreError` and nothing else of their own.

    With a `signer`, its objects can be reached by signed HTTP requests, which other processes can make, too.
    Files of `multipart_from` bytes or more are uploaded in parts of `part` bytes; without multipart uploads
    that is infinite, and nothing is ever unfinished.
    """

    signer: Signer | None = None
    multipart_from: float = math.inf
    part: int = 0

    @abstractmethod
    def runner(self, connections: OpenConnections) -> UnitRunner:
        """What runs units on this store in one thread, until the `connections` of all threads are shut."""

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
        """The object's state; None if it does not exist."""

    @abstractmethod
    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """Yields the object's bytes in pieces; closing the iterator ends the request.

        A generator that returns False had no checksum to compare them with.

        Raises:
            NotFound: there is no such object.
            Unreachable: after the last piece at the latest, other bytes arrived than were stored.
        """

    @abstractmethod
    def read_from(self, bucket: str, key: str, offset: int, version: str = "") -> Iterator[bytes]:
        """Yields the object's bytes from `offset` on; closing the iterator ends the request.

        Only the length is checked, as the caller may want a part only.

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
        """Where this store keeps the object on this machine; empty if it is not here."""
        return ""

    def region(self, bucket: str) -> str:
        """The region of a bucket; empty if the store has none.

        Raises:
            NotFound: there is no such bucket.
            Refused: it is somebody else's, or its region must not be asked for.
        """
        return ""

    def begin_parts(self, bucket: str, key: str, left: tuple[str, ...] = ()) -> MultipartUpload:
        """Begins a multipart upload, or resumes one; those of anybody else are not touched.

        `left` are the ids of our own earlier uploads of this key, the oldest first. The last one is resumed,
        unless it has gone; the others are aborted.
        """
        raise NotImplementedError

    def end_parts(
        self, bucket: str, key: str, upload: str, etags: tuple[str, ...], size: int, compared: bool = True
    ) -> str | None:
        """Makes one object of `size` bytes of the parts; returns its ETag, without quotes.

        None if the upload, or a part of it, has gone, and the object is not there: it must begin anew. If the
        parts were not `compared`, their ETags tell nothing about their content. Raises `StoreError` if the
        upload may still be completed, or the store refused.
        """
        raise NotImplementedError

    def abort_parts(self, bucket: str, key: str, upload: str) -> None:
        """Aborts a multipart upload, which deletes its parts; it need not exist."""
        raise NotImplementedError

    def unfinished(self, bucket: str, prefix: str) -> Iterator[UnfinishedUpload]:
        """Yields the multipart uploads, of anybody, whose keys begin with the prefix."""
        return iter(())

    def try_write(self, bucket: str, key: str) -> None:
        """Asks for what a write of this key needs, and leaves nothing behind.

        Raises:
            NotFound: there is no such bucket.
            Refused: the credentials do not permit it.
        """
        begun = self.begin_parts(bucket, key)
        with suppress(StoreError):  # not permitted: it has no parts that would cost anything
            self.abort_parts(bucket, key, begun.upload)
