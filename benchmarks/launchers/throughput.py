"""What comes out of a pipe: how fast, whether all of it, and in which order."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from launchers.rank import COUNT, FILLING_BYTES, LINE_BYTES

_READ_BYTES = 1 << 20
_OF_A_LINE = b"xx"
_LINE = re.compile(rb"<(\d)#(\d{7})x{%d}\1#\2>" % FILLING_BYTES)


class Counted(NamedTuple):
    """Lines that came whole, how many of them came once more, and whether each rank's are in order."""

    whole: int
    repeated: int
    ordered: bool


@dataclass
class Received:
    """The file that all went to, and when the last of the ranks' lines came (monotonic)."""

    file: Path
    last: float = 0.0

    def counted(self, lines: int) -> Counted:
        """Looks for all lines of the ranks, of which each wrote so many."""
        seen = bytearray(COUNT * lines)
        latest = [-1] * COUNT
        total, ordered = 0, True
        for match in _LINE.finditer(self.file.read_bytes()):
            rank, number = int(match[1]), int(match[2])
            total += 1
            seen[rank * lines + number] = 1
            ordered = ordered and latest[rank] < number
            latest[rank] = number
        return Counted(sum(seen), total - sum(seen), ordered)


@contextlib.contextmanager
def received(process: subprocess.Popen[bytes], file: Path) -> Iterator[Received]:
    """Reads the process's output to its end, which nobody may keep open when the block is left."""
    assert process.stdout is not None
    got = Received(file)
    reader = threading.Thread(target=_read, args=(process.stdout.fileno(), got))
    reader.start()
    try:
        yield got
    finally:
        reader.join()


def _read(source: int, got: Received) -> None:
    with got.file.open("wb", buffering=0) as target:
        while data := os.read(source, _READ_BYTES):
            target.write(data)
            if _OF_A_LINE in data:  # not what the launcher itself says at its end
                got.last = time.monotonic()


def cat_alone(size: int) -> float:
    """MB/s that `cat` of a file of this size moves through a pipe to the same reader."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        file = Path(name) / "in"
        block = (b"x" * (LINE_BYTES - 2) + b">\n") * 10_000
        with file.open("wb") as target:
            for _ in range(0, size, len(block)):
                target.write(block)
        began = time.monotonic()
        process = subprocess.Popen(["cat", str(file)], stdout=subprocess.PIPE)
        with process, received(process, Path(name) / "out") as got:
            process.wait()
        return file.stat().st_size / 1e6 / (got.last - began)
