"""Queues of received messages, by the part of ma_boot that polls them."""

from __future__ import annotations

from collections import deque

from ma_boot.node.observe.peers import PeerMessage

# Messages; a queue that is not polled drops its oldest ones. The hang detector is not polled while a node
# uploads, so the limit also bounds the memory that a peer can use.
MOST_UNREAD = 4096
SAVES, UPLOADS, HANGS, RANKS = "saves", "uploads", "hangs", "ranks"
_TOPICS = {"save": SAVES, "uploads": UPLOADS, "ranks": RANKS}
# Kinds that `Agreement`, `FailureBook` and `Readiness` read at once.
_NOT_QUEUED = frozenset({"failed", "cause", "go", "left", "stopped", "over", "here", "ready"})


class Mailbox:
    """Messages on saves, uploads, hangs and script ranks, each in a queue of its own until it is polled.

    The thread that receives puts messages; another thread may take those of one topic.
    """

    def __init__(self) -> None:
        self._queues = {
            topic: deque[PeerMessage](maxlen=MOST_UNREAD) for topic in (SAVES, UPLOADS, HANGS, RANKS)
        }

    def put(self, message: PeerMessage) -> None:
        """Queues a message; those of the failure and restart protocols belong to no queue."""
        if message.kind not in _NOT_QUEUED:
            self._queues[_TOPICS.get(message.kind, HANGS)].append(message)

    def take(self, topic: str) -> list[PeerMessage]:
        """Returns the messages of a topic since the last call."""
        queue = self._queues[topic]
        # By count: the other thread may append meanwhile, and clearing would lose that message.
        return [queue.popleft() for _ in range(len(queue))]
