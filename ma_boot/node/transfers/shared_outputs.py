"""Outputs that all nodes of a job upload to the same URL: none of them replaces another node's file."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable, NamedTuple, Protocol

from ma_boot.errors import listed
from ma_boot.report.journal import Journal
from ma_boot.wording import counted, list_first
from path_mapping.errors import Refused, printable

if TYPE_CHECKING:
    from path_mapping.mapping.routes import Route
    from path_mapping.planning.prepare import UploadChoice
    from path_mapping.planning.shared_target import SharedTarget
    from path_mapping.transfer.transfer import Transferred
    from path_mapping.workers.retry import RetriedStore

Send = Callable[["Sequence[Route]", "UploadChoice"], "Transferred"]
# Seconds; max. wait for peers that are uploading, as the default of --upload-timeout.
PEER_SECONDS = 600.0
# Seconds; the same after a stop signal, as its grace period is short.
HURRIED_SECONDS = 5.0
# Diverted files in a message.
MOST_NAMED = 5


class UploadPeers(Protocol):
    """The job's other nodes, as far as uploads to shared outputs concern them."""

    def announce(self, writing: bool) -> None:
        """Reports that this node begins or ends to replace objects. May be called in any thread."""

    def finish(self) -> None:
        """Reports that this node will not replace objects any more."""

    def wait(self, until: float, cancel: threading.Event) -> None:
        """Waits until no peer replaces objects any more, at most until a monotonic time (seconds)."""


class SharedOutputs(NamedTuple):
    """The outputs with the same URL on all nodes of this job, which are not checkpoints.

    A file whose object another node has written with other content is uploaded below `conflicts/node-K/`.
    """

    routes: Sequence[Route]
    nodes: int
    target: SharedTarget
    peers: UploadPeers

    def warning(self) -> str:
        """The line before the training. Often only one node writes, so it is no error."""
        return listed(
            f"all {self.nodes} nodes upload these outputs to the same URL. A file that differs from another "
            "node's file of the same name is uploaded below conflicts/node-K/; {node} in the URL keeps them "
            "apart:",
            [f"{route.local} -> {route.remote}" for route in self.routes],
        )

    def note_objects(self, to: RetriedStore) -> None:
        """Takes note of the objects that exist before the training; those may be replaced.

        A listing that is refused is no error: then every existing object counts as another node's.
        """
        for route in self.routes:
            try:
                self.target.note(route.remote.bucket, to.listing(route.remote.bucket, route.remote.key))
            except Refused:
                continue

    def upload(
        self, send: Send, routes: Sequence[Route], choice: UploadChoice, to: RetriedStore
    ) -> Transferred:
        """Uploads all outputs, and compares the shared ones once the peers have finished their uploads.

        The wait takes at most half of the time that is left. Raises what `send` raises.
        """
        try:
            done = send(routes, choice._replace(shared=self.target))
        finally:
            self.peers.finish()
        # The other half of the time is for the comparison.
        now = time.monotonic()
        seconds = min(HURRIED_SECONDS if choice.hurry else PEER_SECONDS, (to.patience.deadline - now) / 2)
        self.peers.wait(now + seconds, to.cancel)
        try:
            again = send(self.routes, choice._replace(shared=self.target, others_done=True))
        except Refused as error:
            # An upload needs no permission to list.
            notice = f"files are not compared with those of other nodes: {error}"
            return done._replace(notices=(*done.notices, notice))
        return done._replace(
            files=done.files + again.files,
            bytes=done.bytes + again.bytes,
            seconds=done.seconds + again.seconds,
            retries=done.retries + again.retries,
        )

    def conflicts(self) -> str:
        """The line that names the diverted files; empty if there are none."""
        diverted = self.target.diverted
        if not diverted:
            return ""
        names = list_first([printable(copy.url) for copy in diverted], MOST_NAMED)
        files = (
            f"{counted(len(diverted), 'file')} of this node {'differs' if len(diverted) == 1 else 'differ'}"
        )
        return f"{files} from another node's of the same name, uploaded as {names}"


def report_conflicts(shared: SharedOutputs | None, journal: Journal) -> None:
    """Prints a warning that names the diverted files of shared outputs, and writes its event."""
    if shared is None or not shared.target.diverted:
        return
    journal.event("conflicts", urls=[copy.url for copy in shared.target.diverted[:MOST_NAMED]])
    journal.warn(shared.conflicts())
