"""Files that a run leaves: those of an earlier run are kept, and no reader ever sees half of one."""

from __future__ import annotations

import os
from pathlib import Path

from ma_boot.errors import CannotCreate


def keep_earlier(path: Path) -> None:
    """Renames a file of this name, if there is one, with the first free number: `x.txt` to `x.1.txt`.

    Raises:
        OSError: It cannot be renamed.
    """
    number = 1
    while path.exists():
        aside = path.with_name(f"{path.stem}.{number}{path.suffix}")
        if not aside.exists():
            path.rename(aside)
        number += 1


def write_atomically(path: Path, text: str) -> None:
    """Writes the file with mode 0640, creating parent directories; readers see the old or the new contents.

    Raises `CannotCreate` if the system refuses.
    """
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "x", encoding="utf-8", errors="backslashreplace") as file:
            try:
                os.fchmod(file.fileno(), 0o640)
                file.write(text)
                file.flush()  # not fsync: such a file is lost with the container, whose end waits for this
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
    except OSError as error:
        raise CannotCreate(f"cannot write {path}: {error.strerror}") from error
