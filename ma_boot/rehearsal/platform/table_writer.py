"""Writes rank tables as planned: at their time, in place or by swapping a link."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Callable, Sequence

from ma_boot.errors import CannotCreate
from ma_boot.rehearsal.platform.table_writes import TableWrite


def write_tables(
    planned: Sequence[TableWrite],
    file_of: Callable[[int], Path],
    cancel: threading.Event,
    note: Callable[[TableWrite], None],
) -> None:
    """Makes the writes, which are sorted by time, and calls `note` after each; returns early when cancelled.

    Raises:
        CannotCreate: a file cannot be written.
    """
    started = time.monotonic()
    for write in planned:
        if cancel.wait(max(0.0, started + write.at - time.monotonic())):
            return
        file = file_of(write.node)
        try:
            (_swap if write.swapped else _write)(file, write.text)
        except OSError as error:
            raise CannotCreate(f"cannot write the rank table {file}: {error.strerror}") from error
        note(write)


def _write(file: Path, text: str) -> None:
    """In place, as the platform's controller does: a reader may see half of it."""
    file.write_text(text, encoding="utf-8")


def _swap(file: Path, text: str) -> None:
    """As Kubernetes updates a mounted ConfigMap: the file is a link, which is switched to a new directory."""
    number = time.monotonic_ns()
    content = file.parent / f"..{number}"
    content.mkdir()
    (content / file.name).write_text(text, encoding="utf-8")
    link = file.parent / f"..link-{number}"
    link.symlink_to(Path(content.name, file.name))
    earlier = os.readlink(file) if file.is_symlink() else None
    os.replace(link, file)
    if earlier is not None:
        old = file.parent / Path(earlier).parent
        with contextlib.suppress(OSError):
            (old / file.name).unlink()
            old.rmdir()
