"""The files of one upload: which were sent, and in which state, as they may change meanwhile."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, Set

from path_mapping.errors import Failure
from path_mapping.localfs import FileChanged, shown
from path_mapping.planning import Copy, PreparedTransfer


class Sending:
    """What became of each file; `files` and `size` (bytes) were sent.

    A file that was removed before it was sent is a notice: the training deletes old checkpoints. `settled`:
    a file that has changed since it was listed is in `deferred`, else it has failed.
    """

    def __init__(self, prepared: PreparedTransfer, failures: List[Failure], settled: bool) -> None:
        self.files = self.size = 0
        self.deferred: List[Path] = []
        self._prepared = prepared
        self._failures = failures
        self._settled = settled
        self._begun: Dict[Path, Copy] = {}
        self._others: Dict[Path, Copy] = {}  # sent in another state than that in which they were listed
        self._unsent: Set[Path] = set()

    def begin(self, copy: Copy) -> None:
        """Takes note of a file as it was listed."""
        self._begun[copy.local] = copy

    def done(self, copy: Copy) -> None:
        """Takes note of a file as it was sent."""
        listed = self._begun.pop(copy.local)
        if copy.local not in self._others:
            self.files += 1
            self.size += copy.size
        if (copy.size, copy.mtime_ns) != (listed.size, listed.mtime_ns) or copy.local in self._others:
            self._others[copy.local] = copy
        self._prepared.uploaded(copy)

    def failed(self, copy: Copy, error: Exception) -> None:
        """Takes note of a file that was not sent."""
        self._begun.pop(copy.local, None)
        self._unsent.add(copy.local)
        if isinstance(error, FileNotFoundError) and not os.path.exists(copy.local):
            self._prepared.notice(f"{shown(copy.local)} was removed before it was uploaded")
        elif isinstance(error, FileChanged) and self._settled:
            self.deferred.append(copy.local)
        else:
            self._failures.append(Failure(shown(copy.local), copy.url, error))

    def changed(self) -> Iterator[Copy]:
        """The files that have changed since they were sent, as they are now."""
        for listed in self._prepared.copies():
            if listed.local in self._unsent:
                continue
            sent = self._others.get(listed.local, listed)
            try:
                status = os.stat(listed.local)
            except OSError:
                continue  # removed since
            if (status.st_size, status.st_mtime_ns) != (sent.size, sent.mtime_ns):
                self._others[listed.local] = sent
                yield replace(listed, size=status.st_size, mtime_ns=status.st_mtime_ns)
