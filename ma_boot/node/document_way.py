"""The way to a job's other nodes by documents in OBS, beside their checkpoints: no connection is needed."""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Deque, List, Mapping

from ma_boot.observe import PeerMessage
from ma_boot.processes import SignalInbox, Task
from path_mapping.errors import PathMappingError

if TYPE_CHECKING:
    from ma_boot.checkpoints import Notices

KINDS = frozenset(("failed", "cause", "stopped", "go", "left"))  # all else is for a connection only
WATCH_SECONDS = 5.0  # between two looks while the processes run
AGREE_SECONDS = 1.0  # and once a node has told something, or waits for the others


class DocumentWay:
    """What `NodeChannel` is by a connection, for what ends an attempt; in a thread of its own, until `close`.

    `notices` opens the notices of the attempt that has begun. Whatever fails is tried again at the next look.

    Raises:
        RuntimeError: the limit of threads.
    """

    def __init__(self, notices: Callable[[threading.Event], Notices], inbox: SignalInbox) -> None:
        self._new_notices = notices
        self._inbox = inbox
        self._lock = threading.Lock()
        self._arrived: Deque[PeerMessage] = deque()
        self._unsent: Deque[Callable[[], None]] = deque()
        self._number = 0
        self._wanted = threading.Event()
        self._cancel = threading.Event()
        self._pause = WATCH_SECONDS
        self._notices: Notices = notices(self._cancel)
        Task("notices", self._run, inbox)

    def begin(self) -> None:
        """All nodes have begun an attempt: what they tell from now on is of it."""
        with self._lock:
            self._notices, self._number, self._pause = self._new_notices(self._cancel), 0, WATCH_SECONDS

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Writes a message in the background, if it is one of `KINDS`."""
        if kind in KINDS:
            with self._lock:
                self._unsent.append(partial(self._notices.write, self._number, kind, body))
                self._number += 1
            self.hurry()

    def hurry(self) -> None:
        """Looks at once, and often until the next attempt: the other nodes are waited for."""
        self._pause = AGREE_SECONDS
        self._wanted.set()

    def heard(self) -> List[PeerMessage]:
        """What has come since the last call."""
        with self._lock:
            messages = list(self._arrived)
            self._arrived.clear()
        return messages

    def flush(self, seconds: float) -> bool:
        """Waits until everything is written; False if that took too long."""
        until = time.monotonic() + seconds
        while self._unsent:
            if time.monotonic() >= until:
                return False
            self._cancel.wait(0.01)
        return True

    def close(self) -> None:
        """Ends the thread; what was not written yet is dropped."""
        self._cancel.set()
        self._wanted.set()

    def _run(self, _: threading.Event) -> None:
        while not self._cancel.is_set():
            try:
                self._send()
                self._look()
            except PathMappingError:  # also `Cancelled`
                self._cancel.wait(AGREE_SECONDS)
            self._wanted.wait(self._pause)
            self._wanted.clear()

    def _send(self) -> None:
        while self._unsent:
            self._unsent[0]()
            self._unsent.popleft()

    def _look(self) -> None:
        notices = self._notices
        for notice in notices.unread():
            if notice.kind not in KINDS:
                continue
            with self._lock:
                self._arrived.append(PeerMessage(notice.node, notice.kind, notice.body, time.monotonic()))
                self._pause = AGREE_SECONDS
            self._inbox.wake()
