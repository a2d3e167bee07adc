"""What a downloaded file is a copy of: noted on the file itself, so that no copy is fetched twice.

An extended attribute is moved into place together with the content: a run that is killed at any point leaves
no file without its mark, and no mark without its file. Where a file system has none, files are fetched again.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Union

ATTRIBUTE = "user.path_mapping"


class FileMark(NamedTuple):
    """The object's size and ETag, and the file's time of change (ns) when it was written."""

    size: int
    etag: str
    mtime_ns: int


def put_mark(file: int, size: int, etag: str) -> None:
    """Notes on an open file, after its last byte, what it is a copy of."""
    if not etag:
        return
    text = f"{size} {os.fstat(file).st_mtime_ns} {etag.strip(chr(34))}"
    try:
        os.setxattr(file, ATTRIBUTE, text.encode("utf-8", "replace"))
    except OSError:
        return  # no such thing on this file system


def read_mark(path: Union[str, os.PathLike[str]]) -> Optional[FileMark]:
    """The note on a file; None where there is none, or no file."""
    try:
        text = os.getxattr(path, ATTRIBUTE, follow_symlinks=False).decode("utf-8")
        size, mtime_ns, etag = text.split(" ", 2)
        return FileMark(int(size), etag, int(mtime_ns))
    except (OSError, ValueError):
        return None
