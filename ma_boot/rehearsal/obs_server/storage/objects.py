"""What the server keeps: objects, and the parts and uploads that become some. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Mapping


@dataclass(frozen=True)
class Stored:
    """An object. `headers` are the standard ones (Content-Type, ...) and `metadata` the user's own, both as
    they were sent; `modified` counts seconds since the epoch; `path` begins with the content."""

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
class Part:
    """One part: `etag` is the MD5 of its content, which is at `path`."""

    number: int
    size: int
    etag: str
    modified: float
    path: str


@dataclass(frozen=True)
class Upload:
    """An upload that was begun; `headers` and `metadata` are for the object that it becomes."""

    id: str
    bucket: str
    key: str
    begun: float
    headers: Mapping[str, str]
    metadata: Mapping[str, str]
    parts: Dict[int, Part] = field(default_factory=dict)
