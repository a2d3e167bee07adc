"""What a transfer needs of a place that holds objects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, Optional, Protocol


@dataclass(frozen=True)
class StoredObject:
    """One object; `size` in bytes, `md5` in hex where the store's listing has one, `etag` as it stands there.

    A listing does not tell an encrypted object, whose ETag only looks like an MD5: content is not to be
    judged by it, that is done by `Store.read`.
    """

    key: str
    size: int
    md5: Optional[str]
    etag: str = ""


class Store(Protocol):
    """The narrowest thing that holds objects; of its own it raises `StoreError` and nothing else."""

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with the prefix, in the order of their keys."""

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """The object's bytes, in pieces; closing the iterator ends the request.

        Raises `Unreachable` at the latest after the last piece when they are not those that were stored.
        """

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> None:
        """Stores a local file, whole or not at all; `md5` (hex) is that of its content.

        `sent` is told the number of bytes of each piece that has gone, and may raise to give up.
        """
