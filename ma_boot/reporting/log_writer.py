"""Log files, written by a thread of their own: a file system that does not answer holds up nobody."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from typing import BinaryIO, Callable, Deque, Optional, Tuple

QUEUE_BYTES = 8 << 20
PATIENCE_SECONDS = 5.0


class LogFile:
    """A file to which a `LogWriter` appends; `lost` counts the bytes that it did not take.

    `say` gets the reason once: bytes that come after an error are lost, too; after a time in which the file
    system did not answer the file goes on.
    """

    def __init__(self, file: BinaryIO, say: Callable[[str], None]) -> None:
        """Takes an unbuffered file, which is the writer's from now on."""
        self.lost = 0
        self._file: Optional[BinaryIO] = file
        self._say = say

    def append(self, data: bytes) -> None:
        """Writes at once; never raises."""
        rest = memoryview(data)
        while rest and self._file is not None:
            try:
                rest = rest[os.write(self._file.fileno(), rest) :]
            except OSError as error:  # a full disk must not stop the training
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


class LogWriter:
    """Appends to log files in the order of the calls; may be used from any thread.

    Whoever can wait asks `pause` before there is more. If nothing was written for 5 s (`patience`), bytes are
    lost, once `QUEUE_BYTES` wait. `room_again` is called in the writing thread when there is room after a
    `pause`.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self.room_again: Callable[[], None] = lambda: None
        self._patience = patience
        self._changed = threading.Condition()
        self._queue: Deque[Tuple[LogFile, Optional[bytes]]] = deque()
        self._queued = 0
        self._progressed = time.monotonic()
        self._paused = False
        self._thread: Optional[threading.Thread] = None

    def append(self, log: LogFile, data: bytes) -> None:
        """Queues the bytes; returns at once."""
        with self._changed:
            if self._queued > QUEUE_BYTES and self._is_stuck():
                log.lose(len(data), f"the file system has not answered for {self._patience:.0f} s")
            else:
                self._put(log, data)

    def close(self, log: LogFile) -> None:
        """Closes a file once all of it is written."""
        with self._changed:
            self._put(log, None)

    def pause(self) -> float:
        """How many seconds to wait before more is appended: 0 if there is room."""
        with self._changed:
            if self._queued <= QUEUE_BYTES:
                return 0.0
            self._paused = True
            return max(0.0, self._progressed + self._patience - time.monotonic())

    def flush(self) -> None:
        """Waits until everything is written, or nothing was for 5 s."""
        with self._changed:
            while self._queue and not self._is_stuck():
                self._changed.wait(max(0.001, self._progressed + self._patience - time.monotonic()))

    def _is_stuck(self) -> bool:
        return time.monotonic() - self._progressed >= self._patience

    def _put(self, log: LogFile, data: Optional[bytes]) -> None:
        if not self._queue:
            self._progressed = time.monotonic()
        self._queue.append((log, data))
        self._queued += len(data or b"")
        if self._thread is None and not self._start():
            while self._queue:
                self._write_next()
        self._changed.notify_all()

    def _start(self) -> bool:
        """Starts the thread; False at the limit of threads, and the next call tries again."""
        thread = threading.Thread(target=self._run, name="logs", daemon=True)
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
        log, data = self._queue[0]
        if data is None:
            log.close()
        else:
            log.append(data)
        with self._changed:
            self._queue.popleft()
            self._queued -= len(data or b"")
            self._progressed = time.monotonic()
            room = self._paused and self._queued <= QUEUE_BYTES
            self._paused = self._paused and not room
            self._changed.notify_all()
        if room:
            self.room_again()
