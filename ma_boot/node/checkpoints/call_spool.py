"""The directory in which a node's ranks note their calls of `checkpoint`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ma_boot.node.checkpoints.calls import Calls, read_calls


class CallSpool:
    """Calls by these `ranks` for the output at `root`. `is_explicit`: no step is complete without a call."""

    def __init__(self, directory: Path, root: Path, ranks: Sequence[int], is_explicit: bool) -> None:
        self.directory = directory
        self._root = root
        self._ranks = ranks
        self._is_explicit = is_explicit
        self._sizes: dict[Path, int] = {}

    def has_grown(self) -> bool:
        """Returns whether there are new calls since the last call of this method."""
        sizes = {}
        for file in self.directory.glob("*.jsonl"):
            with suppress(OSError):
                sizes[file] = file.stat().st_size
        has_grown, self._sizes = sizes != self._sizes, sizes
        return has_grown

    def read(self) -> Calls | None:
        """Returns the calls so far; None if there is none and none is required."""
        texts = []
        for file in sorted(self.directory.glob("*.jsonl")):
            with suppress(OSError):
                texts.append(file.read_text(encoding="utf-8", errors="replace"))
        calls = read_calls(texts, self._ranks, os.path.realpath(self._root))
        if calls is None:
            return Calls({}, {}) if self._is_explicit else None
        return calls if self._has_one_clock() else calls._replace(times={})

    def _has_one_clock(self) -> bool:
        """Returns whether calls and files of the output are dated by one clock, that of one file system."""
        with suppress(OSError):
            return os.stat(self.directory).st_dev == os.stat(self._root).st_dev
        return False
