"""What a downloaded file is a copy of, noted on the file itself so that it is not downloaded twice.

An extended attribute moves into place together with the content: whenever a run is killed, no file is left
without its mark. On file systems without extended attributes, such files are downloaded again.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Union

ATTRIBUTE = "user.path_mapping"


class FileMark(NamedTuple):
    """The object's size in bytes and its ETag without quotes; the file's mtime (ns) when it was written."""

    size: int
    etag: str
    mtime_ns: int


def put_mark(file: int, size: int, etag: str) -> None:
    """Marks an open file after its last byte; does nothing if there is no ETag or the disk cannot."""
    if not etag:
        return
    text = f"{size} {os.fstat(file).st_mtime_ns} {etag.strip(chr(34))}"
    try:
        os.setxattr(file, ATTRIBUTE, text.encode("utf-8", "replace"))
    except OSError:
        return


def read_mark(path: Union[str, os.PathLike[str]]) -> Optional[FileMark]:
    """The mark of a file; None if it has none or does not exist."""
    try:
        text = os.getxattr(path, ATTRIBUTE, follow_symlinks=False).decode("utf-8")
        size, mtime_ns, etag = text.split(" ", 2)
        return FileMark(int(size), etag, int(mtime_ns))
    except (OSError, ValueError):
        return None
