"""The files of one upload: which were sent, and in which state, as they may change meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Set

from path_mapping.errors import Corrupted, Failure
from path_mapping.localfs import CHANGED_ATTEMPTS, FileChanged, shown
from path_mapping.planning import Copy, PreparedTransfer
from path_mapping.transfer.moving import Work, move_files
from path_mapping.transfer.progress import Progress
from path_mapping.workers import RetriedStore


class Sending:
    """What became of each file; `files` and `size` (bytes) were sent, `uncompared` by their length only.

    A file that was removed before it was sent is a notice: the training deletes old checkpoints. `settled`:
    a file that has changed since it was listed is in `deferred`, else it has failed.
    """

    def __init__(self, prepared: PreparedTransfer, failures: List[Failure], settled: bool) -> None:
        self.files = self.size = 0
        self.deferred: List[Path] = []
        self.uncompared: Set[str] = set()
        self._prepared = prepared
        self._failures = failures
        self._settled = settled
        self._begun: Dict[str, Copy] = {}
        self._others: Dict[str, Copy] = {}  # sent in another state than that in which they were listed
        self._unsent: Set[str] = set()

    def run(self, work: Work, to: RetriedStore, progress: Callable[[Progress], None]) -> int:
        """Sends the files, and those again that have changed meanwhile; returns the number of retries.

        Raises what `move_files` raises.
        """
        retries = 0
        for attempt in range(1, CHANGED_ATTEMPTS + 1):
            retries += move_files(work, to, progress)[1]
            changed = [] if self._settled else list(self._changed())
            if not changed:
                break
            if attempt == CHANGED_ATTEMPTS:
                for copy in changed:
                    self._prepared.notice(f"{shown(copy.local)} changed again after it was uploaded")
            size = sum(copy.size for copy in changed)
            work = work._replace(copies=iter(changed), files=len(changed), size=size)
        return retries

    def begin(self, copy: Copy) -> None:
        """Takes note of a file as it was listed."""
        self._begun[copy.path] = copy

    def by_length(self, copy: Copy) -> None:
        """Takes note of a file that could only be compared by its length."""
        self.uncompared.add(copy.path)

    def done(self, copy: Copy) -> None:
        """Takes note of a file as it was sent."""
        listed = self._begun.pop(copy.path)
        if copy.path not in self._others:
            self.files += 1
            self.size += copy.size
        if (copy.size, copy.mtime_ns) != (listed.size, listed.mtime_ns) or copy.path in self._others:
            self._others[copy.path] = copy
        self._prepared.uploaded(copy)

    def failed(self, copy: Copy, error: Exception) -> None:
        """Takes note of a file that was not sent."""
        self._begun.pop(copy.path, None)
        self._unsent.add(copy.path)
        if isinstance(error, FileNotFoundError) and not os.path.exists(copy.path):
            self._prepared.notice(f"{shown(copy.local)} was removed before it was uploaded")
        elif isinstance(error, FileChanged) and self._settled:
            self.deferred.append(copy.local)
        else:
            if isinstance(error, Corrupted):  # what is in OBS now is not what the record says
                self._prepared.forget(copy)
            self._failures.append(Failure(shown(copy.local), copy.url, error))

    def _changed(self) -> Iterator[Copy]:
        """The files that have changed since they were sent, as they are now."""
        for listed in self._prepared.copies():
            if listed.path in self._unsent:
                continue
            sent = self._others.get(listed.path, listed)
            try:
                status = os.stat(listed.path)
            except OSError:
                continue  # removed since
            if (status.st_size, status.st_mtime_ns) != (sent.size, sent.mtime_ns):
                self._others[listed.path] = sent
                yield listed._replace(size=status.st_size, mtime_ns=status.st_mtime_ns)
