"""Objects, and the multipart uploads that become objects. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Mapping


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
