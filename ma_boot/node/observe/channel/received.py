"""Bounded queue of the messages that a node has received and not read yet."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

# Bytes of unread messages of one sender, and of all together. The oldest messages of the sender that exceeds
# a limit are dropped, so a node that floods this one does not displace the messages of the others.
MAX_BYTES_OF_SENDER = 2 << 20
MAX_BYTES = 16 << 20
# Bytes per node, which raise MAX_BYTES for jobs of more than 512 nodes: the stacks of 8 ranks take 17 KB.
MIN_BYTES_PER_NODE = 32 << 10


class ReceivedMessage(NamedTuple):
    """Message as it arrived; `arrived_at` in monotonic seconds."""

    node: int
    data: bytes
    arrived_at: float


class ReceivedMessages:
    """Messages in the order of their arrival; filled by the channel's thread, read by any other."""

    def __init__(self, nodes: int) -> None:
        self._lock = threading.Lock()
        self._queue: deque[ReceivedMessage] = deque()
        self._bytes_of_sender: Counter[int] = Counter()
        self._bytes = 0
        self._max_bytes = max(MAX_BYTES, nodes * MIN_BYTES_PER_NODE)

    def append(self, new: ReceivedMessage) -> None:
        """Adds a message and drops the oldest of its sender beyond the limits."""
        with self._lock:
            self._queue.append(new)
            self._count(new.node, len(new.data))
            while self._bytes_of_sender[new.node] > MAX_BYTES_OF_SENDER or self._bytes > self._max_bytes:
                oldest = next(message for message in self._queue if message.node == new.node)
                self._queue.remove(oldest)
                self._count(new.node, -len(oldest.data))

    def drain(self) -> Iterator[ReceivedMessage]:
        """Removes and yields the messages one by one; the lock is free while the caller handles each."""
        while True:
            with self._lock:
                if not self._queue:
                    return
                message = self._queue.popleft()
                self._count(message.node, -len(message.data))
            yield message

    def _count(self, sender: int, added: int) -> None:
        self._bytes_of_sender[sender] += added
        self._bytes += added
