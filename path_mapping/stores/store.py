"""What a transfer needs of a place that holds objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator, Optional, Protocol, runtime_checkable

STALL_SECONDS = 60.0  # without anything moved, after which a request has failed


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


@dataclass(frozen=True)
class Credentials:
    """What requests are signed with; never shown."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    token: Optional[str] = field(repr=False, default=None)


@dataclass(frozen=True)
class Access:
    """All that another process needs to make requests of its own: the service, and the credentials.

    `bundle` is a file of CA certificates; `timeout` the seconds without progress that fail a request;
    `multipart_from` and `part` are bytes.
    """

    endpoint: str
    credentials: Credentials
    bundle: Optional[str]
    timeout: float
    multipart_from: int
    part: int


@runtime_checkable
class Signing(Protocol):
    """A store whose objects can be reached by signed HTTP requests, outside of `read` and `write`."""

    def access(self) -> Optional[Access]:
        """None where requests must go through the store itself, as a proxy stands between."""

    def renewed(self) -> bool:
        """Asks for the credentials again, when they were refused as expired; False: still the same."""
