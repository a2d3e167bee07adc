"""Writers with a thread of their own, so that no caller waits for a stalled reader or file system."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from typing import BinaryIO, Callable, Generic, Optional, TypeVar

QUEUE_BYTES = 8 << 20
# Seconds without progress after which a writer counts as stalled: then bytes are lost rather than waited for.
PATIENCE_SECONDS = 5.0

Item = TypeVar("Item")


class BackgroundWriter(ABC, Generic[Item]):
    """Writes items in the order of the calls, in its own thread; may be used from any thread.

    Callers that are able to wait ask `pause` before they produce more. `room_again` is called in the writing
    thread when there is room after a `pause`. A subclass defines `_write`, and may drop items once the queue
    is full.
    """

    def __init__(self, name: str, queue_bytes: int, patience: float) -> None:
        self.room_again: Callable[[], None] = lambda: None
        self._name = name
        self._queue_bytes = queue_bytes
        self._patience = patience
        self._changed = threading.Condition()
        self._queue: deque[tuple[Item, int]] = deque()
        self._queued = 0
        self._progressed = time.monotonic()
        self._paused = False
        self._thread: threading.Thread | None = None

    def pause(self) -> float:
        """Returns the seconds to wait before more is written; 0 if there is room."""
        with self._changed:
            if self._queued <= self._queue_bytes:
                return 0.0
            self._paused = True
            return max(0.0, self._progressed + self._patience - time.monotonic())

    def flush(self) -> None:
        """Waits until everything is written, or nothing was for the time of the `patience`."""
        with self._changed:
            while self._queue and not self._is_stuck():
                self._changed.wait(max(0.001, self._progressed + self._patience - time.monotonic()))

    @abstractmethod
    def _write(self, item: Item) -> None:
        """Writes an item; may wait."""

    def _written(self) -> None:
        """Called after each item, with the lock."""

    def _is_stuck(self) -> bool:
        return time.monotonic() - self._progressed >= self._patience

    def _is_full(self) -> bool:
        return self._queued > self._queue_bytes and self._is_stuck()

    def _put(self, item: Item, size: int) -> None:
        """Queues the item; the lock is held."""
        if not self._queue:
            self._progressed = time.monotonic()
        self._queue.append((item, size))
        self._queued += size
        if self._thread is None and not self._start():
            while self._queue:
                self._write_next()
        self._changed.notify_all()

    def _start(self) -> bool:
        """Starts the thread; False at the limit of threads, and the next call tries again."""
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue:
                    self._changed.wait()
            self._write_next()

    def _write_next(self) -> None:
        item, size = self._queue[0]
        self._write(item)
        with self._changed:
            self._queue.popleft()
            self._queued -= size
            self._progressed = time.monotonic()
            self._written()
            room = self._paused and self._queued <= self._queue_bytes
            self._paused = self._paused and not room
            self._changed.notify_all()
        if room:
            self.room_again()


class LogFile:
    """A file to which a `LogWriter` appends; `lost` counts the bytes that could not be written.

    `say` gets the reason once: bytes that come after an error are lost, too; after a time in which the file
    system did not answer the file goes on.
    """

    def __init__(self, file: BinaryIO, say: Callable[[str], None]) -> None:
        """Takes an unbuffered file, which is the writer's from now on."""
        self.lost = 0
        self._file: BinaryIO | None = file
        self._say = say

    def append(self, data: bytes) -> None:
        """Writes at once; never raises."""
        rest = memoryview(data)
        while rest and self._file is not None:
            try:
                rest = rest[os.write(self._file.fileno(), rest) :]
            # A full disk must not stop the training.
            except OSError as error:
                self.close()
                self.lose(0, error.strerror or str(error))
        self.lost += len(rest)

    def lose(self, count: int, reason: str) -> None:
        """Counts bytes that are not written."""
        if not self.lost:
            self._say(reason)
        self.lost += count

    def close(self) -> None:
        """Closes the file; whatever comes later is lost."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


class LogWriter(BackgroundWriter[tuple[LogFile, Optional[bytes]]]):
    """Appends to log files; bytes are lost if nothing was written for 5 s (`patience`) and 8 MiB wait."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        super().__init__("logs", QUEUE_BYTES, patience)

    def append(self, log: LogFile, data: bytes) -> None:
        """Queues the bytes; returns at once."""
        with self._changed:
            if self._is_full():
                log.lose(len(data), f"the file system has not answered for {self._patience:.0f} s")
            else:
                self._put((log, data), len(data))

    def close(self, log: LogFile) -> None:
        """Closes a file once all of it is written."""
        with self._changed:
            self._put((log, None), 0)

    def _write(self, item: tuple[LogFile, bytes | None]) -> None:
        log, data = item
        if data is None:
            log.close()
        else:
            log.append(data)
