"""What a path mapping says, as values: URLs, routes with their options, and the placeholders in both."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional, Tuple

PLACEHOLDERS = ("job", "node", "rank")
_URL = re.compile(r"(?:obs|s3)://([^/]*)(?:/(.*))?", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True)
class ObsUrl:
    """`obs://bucket/key`; the key may be empty (the whole bucket), or end in `/` (a directory)."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str) -> ObsUrl:
        """The URL written `obs://` or `s3://`; raises `ValueError` with what was found and expected."""
        match = _URL.fullmatch(text)
        if match is None:
            raise ValueError(f"found {text!r}, expected 'obs://bucket/path'")
        bucket, key = match.group(1), match.group(2) or ""
        if not _BUCKET.fullmatch(bucket) or ".." in bucket:
            raise ValueError(
                f"found the bucket {bucket!r}, expected 3 to 63 lower-case letters, digits, '-' and '.'"
            )
        if any(part in (".", "..") for part in key.split("/")) or "//" in key or key.startswith("/"):
            raise ValueError(f"found {text!r}, expected a path without '//', '.' and '..'")
        if not is_text(key):
            raise ValueError(f"found {text!r}, expected a path without NUL, in Unicode")
        return cls(bucket, key)

    def __str__(self) -> str:
        return f"obs://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class Route:
    """One entry of the mapping; `local` is as written, so it may be relative and may end in `/`.

    `include` and `exclude` are patterns as in a .gitignore, of names below the route: a file is taken when
    nothing is included or an `include` matches, and no `exclude` does. `interval` is the time in seconds
    between two uploads while the training runs, None for only the last one. `shard`: each node fetches only
    its part. `required`: nothing there is an error. `delete`: what the other side no longer has is deleted,
    if it came by this route. `checksum`: contents are compared, not sizes and times.
    """

    local: str
    remote: ObsUrl
    include: Tuple[str, ...] = ()
    exclude: Tuple[str, ...] = ()
    interval: Optional[float] = None
    shard: bool = False
    required: bool = True
    delete: bool = False
    checksum: bool = False

    def path(self, base: Path) -> Path:
        """The local path, normalized; a relative one starts at `base`."""
        return Path(os.path.normpath(base / self.local))


@dataclass(frozen=True)
class PathMapping:
    """What is downloaded before the training and uploaded after it."""

    inputs: Tuple[Route, ...]
    outputs: Tuple[Route, ...]


def expanded(text: str, places: Mapping[str, str]) -> str:
    """The text with `{job}`, `{node}` and `{rank}` replaced; `{{` and `}}` are braces.

    `places` has the values that are known. Raises `ValueError` for any other placeholder or brace.
    """

    def replacement(match: re.Match[str]) -> str:
        found, name = match.group(0), match.group(1)
        if found in ("{{", "}}"):
            return found[0]
        if name is None:
            raise ValueError(f"found a single {found!r}, expected '{found * 2}' for a brace in a name")
        if name not in PLACEHOLDERS:
            raise ValueError(f"found the placeholder {found}, expected {{job}}, {{node}} or {{rank}}")
        if name not in places:
            raise ValueError(f"found {found}, which has no value here")
        return places[name]

    return _BRACES.sub(replacement, text)


def is_text(text: str) -> bool:
    """False for what neither a file name nor a key can have: NUL, and half a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
