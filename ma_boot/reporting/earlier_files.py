"""Keeps the files that an earlier run of the boot command left in the same container."""

from __future__ import annotations

from pathlib import Path


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
