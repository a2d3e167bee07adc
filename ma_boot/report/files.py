"""Files that a run leaves: earlier ones are kept, new ones are written atomically, and ends are read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ma_boot.errors import CannotCreate


def keep_earlier(path: Path) -> None:
    """Renames an existing file to the first free number: `x.txt` to `x.1.txt`.

    Raises:
        OSError: The file cannot be renamed.
    """
    number = 1
    while path.exists():
        aside = path.with_name(f"{path.stem}.{number}{path.suffix}")
        if not aside.exists():
            path.rename(aside)
        number += 1


def write_atomically(path: Path, text: str) -> None:
    """Writes the file with mode 0640, creating parent directories; readers see the old or the new contents.

    Raises:
        CannotCreate: The system refuses.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "x", encoding="utf-8", errors="backslashreplace") as file:
            try:
                os.fchmod(file.fileno(), 0o640)
                file.write(text)
                # No fsync: the file is lost with the container anyway, whose end waits for this call.
                file.flush()
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
    except OSError as error:
        raise CannotCreate(f"cannot write {path}: {error.strerror}") from error


def read_end(path: Path, most: int) -> str:
    """Returns the last complete lines of a regular file, at most this number of bytes.

    Raises:
        OSError: The file cannot be read, or is not a regular one.
    """
    # Without O_NONBLOCK, a FIFO would block until a writer opens it.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        data = file.read(most)
    # The first line of an end is cut, unless it is the only one.
    if size > most:
        data = data.partition(b"\n")[2] or data
    return data.decode("utf-8", "replace")
