"""How far a transfer is, in files and bytes."""

from __future__ import annotations

import threading
from typing import Callable, Dict, Iterable, List, NamedTuple

from path_mapping.errors import Cancelled


class Progress(NamedTuple):
    """The files and bytes that are done, and all of them."""

    files_done: int
    files: int
    bytes_done: int
    bytes: int


class Tally:
    """Counts files and bytes, in any thread. Bytes sent twice count once: progress never goes back."""

    def __init__(
        self, files: int, size: int, progress: Callable[[Progress], None], cancel: threading.Event
    ) -> None:
        self._files, self._size = files, size
        self._progress = progress
        self._cancel = cancel
        self._lock = threading.RLock()
        self._done_files = self._done_bytes = self._partial = 0
        self._moved: Dict[int, List[int]] = {}  # by unit: the bytes of its file so far, and at most

    def begin(self, number: int, account: List[int]) -> None:
        """Books the bytes of this unit to the account of its file: `[so far, at most]`."""
        with self._lock:
            self._moved[number] = account

    def moved(self, number: int, size: int) -> None:
        """Counts bytes of a unit.

        Raises:
            Cancelled: the transfer was cancelled, so the unit should end.
        """
        with self._lock:
            account = self._moved.get(number)
            if account is not None:
                more = min(size, account[1] - account[0])
                account[0] += more
                self._partial += more
            self.report()
        if self._cancel.is_set():
            raise Cancelled

    def end(self, numbers: Iterable[int], account: List[int]) -> None:
        """Counts a file as done, whether it succeeded or not."""
        with self._lock:
            for number in numbers:
                self._moved.pop(number, None)
            self._partial -= account[0]
            self._done_bytes += account[1]
            self._done_files += 1
            self.report()

    def report(self) -> None:
        """Calls `progress`."""
        with self._lock:
            done = self._done_bytes + self._partial
            self._progress(Progress(self._done_files, self._files, done, self._size))
