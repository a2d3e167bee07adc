"""File by which the ranks of a node count their calls of `should_save`, and read the answers.

    bytes 0-7   int64, little endian: the highest call that a rank of this node has made
    bytes 8-    int64 each: calls that answer True; negative for a call that is not decided yet

Ranks and node change it under an exclusive lock (`ma_boot.training.save_request` has the other side, which
has its own copy of the format, as it runs on Python 3.7 without ma_boot's node).
"""

from __future__ import annotations

import fcntl
import os
import struct
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Callable

NUMBER = struct.Struct("<q")


class SaveFile:
    """The file of one attempt; `path` is in the ranks' environment.

    Raises:
        OSError: the directory for temporary files cannot be written.
    """

    def __init__(self) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="ma_boot-save-")
        os.write(descriptor, NUMBER.pack(0))
        os.close(descriptor)
        self._answers: Sequence[int] = ()

    def update(self, decide: Callable[[int], Sequence[int]]) -> None:
        """Calls `decide` with the highest call, and writes the answers that it returns.

        No rank makes a call meanwhile, so a decision about a later call reaches all ranks in time.
        """
        with open(self.path, "r+b", buffering=0) as file:
            # Closing the file unlocks it.
            fcntl.flock(file, fcntl.LOCK_EX)
            (highest,) = NUMBER.unpack(file.read(NUMBER.size))
            answers = decide(highest)
            if answers != self._answers:
                data = b"".join(map(NUMBER.pack, answers))
                os.pwrite(file.fileno(), data, NUMBER.size)
                file.truncate(NUMBER.size + len(data))
                self._answers = answers

    def remove(self) -> None:
        """Removes the file, once no rank runs any more."""
        with suppress(OSError):
            os.unlink(self.path)
