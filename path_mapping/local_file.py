"""Files on the local disk: written beside their place, verified, then moved into it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Iterable, Iterator, List, Optional

from path_mapping.errors import Unreachable, UnsafeTarget

CHUNK = 1 << 20
TEMPORARY = ".ma_part"
_LONGEST_NAME = 255


def chunks(path: Path) -> Iterator[bytes]:
    """The file's content in pieces of 1 MiB."""
    with path.open("rb") as file:
        while True:
            data = file.read(CHUNK)
            if not data:
                return
            yield data


def md5_of(pieces: Iterable[bytes]) -> str:
    """MD5 in hex, as an ETag has it: a checksum against damage, not against an enemy."""
    digest = new_md5()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def new_md5() -> hashlib._Hash:
    """An MD5 of nothing yet."""
    return hashlib.md5(usedforsecurity=False)


def is_temporary(name: str) -> bool:
    """True for the name of a file that a transfer has not finished."""
    return name.startswith(".") and name.endswith(TEMPORARY)


def write_verified(target: Path, pieces: Iterable[bytes], size: int, md5: Optional[str]) -> None:
    """Puts the pieces into the file: all of them, of the right size and MD5, or the disk stays as it was.

    Parents are made with mode 0750, the file has 0640. Raises `Unreachable` for content that is not as
    expected, and `OSError` for the disk.
    """
    made = make_directories(target.parent)
    try:
        _write_beside(target, pieces, size, md5)
    except BaseException:
        for directory in made:
            with suppress(OSError):  # not empty: another file has come into it
                directory.rmdir()
        raise


def make_directories(path: Path) -> List[Path]:
    """Makes a directory and its parents, each with mode 0750; returns what it made, the deepest first.

    `Path.mkdir(parents=True)` gives the mode to the last one only.
    """
    missing = [directory for directory in (path, *path.parents) if not os.path.lexists(directory)]
    for directory in reversed(missing):
        with suppress(FileExistsError):  # somebody else's, a moment ago
            directory.mkdir(mode=0o750)
    return missing


def _write_beside(target: Path, pieces: Iterable[bytes], size: int, md5: Optional[str]) -> None:
    stem = os.fsdecode(os.fsencode(target.name)[: _LONGEST_NAME - 20])
    handle, temporary = tempfile.mkstemp(prefix=f".{stem}.", suffix=TEMPORARY, dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            digest, written = new_md5(), 0
            for piece in pieces:
                file.write(piece)
                if md5 is not None:
                    digest.update(piece)
                written += len(piece)
            os.fchmod(file.fileno(), 0o640)
        if written != size:
            raise Unreachable(f"{written} bytes arrived, expected {size}")
        if md5 is not None and digest.hexdigest() != md5:
            raise Unreachable(f"the content has MD5 {digest.hexdigest()}, expected {md5}")
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def contained(target: Path, root: Path) -> None:
    """Raises `UnsafeTarget` when a link on the way would put the file outside of its root."""
    inside = os.path.realpath(root)
    parent = os.path.realpath(target.parent)
    if parent != inside and not parent.startswith(inside.rstrip(os.sep) + os.sep):
        raise UnsafeTarget([f"{target}: a link leads to {parent}, outside of {root}"])
