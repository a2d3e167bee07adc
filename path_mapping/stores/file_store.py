"""What `path_mapping.file` needs of a store beside moving whole files."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Protocol, runtime_checkable

from path_mapping.stores.store import Store, StoredObject


class Known(NamedTuple):
    """An object: bytes, and nanoseconds since 1970."""

    size: int
    mtime_ns: int


@runtime_checkable
class FileStore(Store, Protocol):
    """A store on which single objects are looked at, read in part, copied and deleted."""

    def find(self, bucket: str, key: str) -> Optional[Known]:
        """The object; None where there is none."""

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """What is right below the prefix, which is empty or ends in `/`; of a directory only its `name/`.

        The prefix's own marker is left out. Raises `NotFound` for a bucket that does not exist.
        """

    def read_from(self, bucket: str, key: str, offset: int) -> Iterator[bytes]:
        """The object's bytes from this one on; closing the iterator ends the request."""

    def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> None:
        """Makes an object with the same content, inside of the store."""

    def delete(self, bucket: str, key: str) -> None:
        """Deletes an object; one that does not exist is deleted already."""
