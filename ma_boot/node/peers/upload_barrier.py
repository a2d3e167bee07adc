"""Barrier of uploads to shared outputs: a node waits until its peers have finished theirs.

node k   uploads   its state: idle, writing or finished
node 0   uploads   the last report of each node, and the nodes that are writing or unfinished
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection
from typing import Protocol

from ma_boot.node.observe.peers import PeerMessage, Peers
from ma_boot.node.peers.upload_states import (
    FINISHED,
    IDLE,
    WRITING,
    UploadsSeen,
    UploadState,
    UploadStates,
    read_seen,
    read_state,
)

# Kind of the messages.
KIND = "uploads"
# Seconds between two reports of node 0: a channel reads at most 20 messages of a node in 10 s.
RELAY_SECONDS = 0.5
# Seconds; max. wait for node 0's first answer: it may be busy, or be gone.
ANSWER_SECONDS = 5.0
# Seconds; wait for reports on their way. Peers that still train list this node's objects later, before they
# upload, so they need not be waited for.
IDLE_SECONDS = 2.0
# Seconds between two looks at received reports.
POLL_SECONDS = 0.05


class UploadMessages(Peers, Protocol):
    """The other nodes, with their messages about uploads, as `JobPeers` has them."""

    @property
    def nodes(self) -> int: ...

    @property
    def is_connected(self) -> bool: ...

    def heard_of_uploads(self) -> list[PeerMessage]: ...


class UploadBarrier:
    """`UploadPeers` over the channel.

    A peer that begins to write after the wait lists the objects of this node first, and diverts its files.
    """

    def __init__(self, peers: UploadMessages) -> None:
        self._peers = peers
        self._lock = threading.Lock()
        self._number = 0
        # On node 0: the states of all nodes, and its last report.
        self._states = UploadStates()
        self._reported: UploadsSeen | None = None
        self._reported_at = -math.inf
        # On the other nodes: node 0's last report.
        self._seen: UploadsSeen | None = None

    def announce(self, writing: bool) -> None:
        """See `UploadPeers`."""
        self._report(WRITING if writing else IDLE)

    def finish(self) -> None:
        """See `UploadPeers`."""
        self._report(FINISHED)

    def wait(self, until: float, cancel: threading.Event) -> None:
        """See `UploadPeers`. Without a channel it returns at once."""
        began = time.monotonic()
        while self._peers.is_connected and time.monotonic() < until:
            self.relay()
            if self._is_over(time.monotonic() - began) or cancel.wait(POLL_SECONDS):
                return

    def patience(self) -> float:
        """Returns the seconds until `relay` has to be called; a message wakes the inbox."""
        return RELAY_SECONDS if not self._peers.node and self._is_changed() else math.inf

    def relay(self) -> None:
        """Reads received reports; node 0 sends its own if it has changed."""
        if not self._peers.is_connected:
            return
        with self._lock:
            for message in self._peers.heard_of_uploads():
                if self._peers.node:
                    self._seen = read_seen(message.body, self._peers.nodes) or self._seen
                else:
                    state = read_state(message.body)
                    self._states = self._states.with_state(message.node, state) if state else self._states
            now = time.monotonic()
            if not self._peers.node and self._is_changed() and now - self._reported_at >= RELAY_SECONDS:
                self._reported, self._reported_at = self._states.seen(self._alive()), now
                self._peers.tell(KIND, self._reported.body())

    def _report(self, state: str) -> None:
        with self._lock:
            self._number += 1
            own = UploadState(self._number, state)
            if not self._peers.node:
                self._states = self._states.with_state(0, own)
            elif self._peers.is_connected:
                self._peers.tell(KIND, own.body())
        self.relay()

    def _is_changed(self) -> bool:
        """Returns whether node 0 has something new to report."""
        return bool(self._states.known) and self._states.seen(self._alive()) != self._reported

    def _alive(self) -> Collection[int]:
        """The nodes that node 0 reports about: itself, and its connected peers."""
        return {0, *self._peers.others} - set(self._peers.unreached)

    def _is_over(self, seconds: float) -> bool:
        """Returns whether the wait is over, `seconds` after it began."""
        with self._lock:
            if not self._peers.node:
                seen = self._states.seen(self._alive())
            elif not self._alive_as_seen_here():
                return True
            elif self._seen is None or not self._seen.has_heard(self._peers.node, self._number):
                return seconds >= ANSWER_SECONDS
            else:
                seen = self._seen
        own = {self._peers.node}
        return not seen.writing - own and (not seen.unfinished - own or seconds >= IDLE_SECONDS)

    def _alive_as_seen_here(self) -> bool:
        """Returns whether node 0 is connected and has not ended."""
        return bool(set(self._peers.others) - set(self._peers.unreached))
