"""Waits until the job's other nodes have finished their uploads to shared outputs, by the job's channel."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection
from typing import Protocol

from ma_boot.node.boot.upload_states import (
    FINISHED,
    IDLE,
    WRITING,
    UploadsSeen,
    UploadState,
    UploadStates,
    read_seen,
    read_state,
)
from ma_boot.node.observe.peers import PeerMessage, Peers

KIND = "uploads"  # of the messages
RELAY_SECONDS = 0.5  # between two reports of node 0: a channel takes 20 messages of a node in 10 s
ANSWER_SECONDS = 5.0  # max. wait for node 0's first answer: it may be busy, or be gone
IDLE_SECONDS = 2.0  # wait for a report on its way; peers that still train list this node's objects later
POLL_SECONDS = 0.05


class UploadMessages(Peers, Protocol):
    """The other nodes, with their messages about uploads, as `JobPeers` has them."""

    @property
    def nodes(self) -> int: ...

    @property
    def is_connected(self) -> bool: ...

    def heard_of_uploads(self) -> list[PeerMessage]: ...


class UploadBarrier:
    """`UploadPeers` by the channel: a star, so each node reports to node 0, which reports to all.

    A peer that begins to write after the wait lists the objects of this node first, and diverts its files.
    """

    def __init__(self, peers: UploadMessages) -> None:
        self._peers = peers
        self._lock = threading.Lock()
        self._number = 0
        self._states = UploadStates()  # of node 0
        self._seen: UploadsSeen | None = None  # of the other nodes: node 0's last report
        self._reported: UploadsSeen | None = None  # of node 0
        self._reported_at = -math.inf

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
        """Seconds until `relay` has to be called; a message wakes the inbox."""
        return RELAY_SECONDS if not self._peers.node and self._is_changed() else math.inf

    def relay(self) -> None:
        """Takes the reports that have come; node 0 sends its own if that has changed."""
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
        """Returns whether node 0 knows more than it has reported. Without shared outputs it knows nothing."""
        return bool(self._states.known) and self._states.seen(self._alive()) != self._reported

    def _alive(self) -> Collection[int]:
        """The nodes that node 0 reports about: itself, and those that have not gone."""
        return {0, *self._peers.others} - set(self._peers.unreached)

    def _is_over(self, seconds: float) -> bool:
        """Returns whether the wait is over after so many seconds."""
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
        """Returns whether node 0 is reached: it has neither ended nor lost its connection."""
        return bool(set(self._peers.others) - set(self._peers.unreached))
