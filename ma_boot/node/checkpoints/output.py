"""Checkpoints of one output on one node, over all attempts.

    begin    agree on a checkpoint, restore it; a new `Publisher` for the attempt
    watch    thread: looks at the disk
    publish  thread: uploads
    finish   after the processes have ended: the last uploads

`begin` may follow `finish`, for the next attempt.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Callable

from ma_boot.errors import ConfigError
from ma_boot.node.checkpoints.attempts import AttemptStart, BegunAttempt, write_end
from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.disk import is_own, own_directory, tree
from ma_boot.node.checkpoints.downloads.restoring import Restorer
from ma_boot.node.checkpoints.layouts.layout import UNFINISHED, matches
from ma_boot.node.checkpoints.layouts.recognition import read_layout
from ma_boot.node.checkpoints.options import options_of
from ma_boot.node.checkpoints.publisher import Publisher
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.steps import Files, RunEnd
from ma_boot.node.checkpoints.watch import StepWatch
from path_mapping.errors import Cancelled
from path_mapping.localfs.atomic_file import make_directories
from path_mapping.localfs.source_file import FileState
from path_mapping.mapping.routes import Route
from path_mapping.mapping.selection import selected
from path_mapping.transfer.periodic import be_nice
from path_mapping.transfer.scheduler import Progress
from path_mapping.transfer.transfer import abort_unfinished
from path_mapping.workers.retry import RetriedStore, RetryPolicy

# Seconds between two looks for calls of the training: a file that is written again sooner tears its step.
CALL_SECONDS = 0.2
# Seconds; longest pause of the upload thread, which notices the end of the processes after it.
IDLE_SECONDS = 1.0

Failed = Callable[[Exception], None]


class CheckpointOutput:
    """An output with checkpoints on one node. Before `begin`, it has no `publisher`.

    `spool` is the directory in which the training notes its calls of `checkpoint`, one for all outputs; by
    default it is this output's own.
    """

    publisher: Publisher

    def __init__(self, target: CheckpointRoute, spool: Path | None = None) -> None:
        self.target = target
        self.spool = spool or own_directory(target.root, "calls")
        self._has_begun = False
        # Held during uploads: `begin` and `finish` wait until the upload thread is idle.
        self._busy = threading.Lock()
        # States of files that are in OBS as parts of checkpoints, of all attempts.
        self._stored: dict[str, set[FileState]] = {}

    def begin(
        self,
        cancel: threading.Event,
        progress: Callable[[Progress], None],
        patience: RetryPolicy,
        timeout: float,
    ) -> BegunAttempt:
        """Agrees with all nodes on the checkpoint to resume from, and puts it in place.

        Raises:
            NodesLate: other nodes gave no sign of life within `timeout` seconds of the last one.
            ConfigError: the newest checkpoint cannot be used by this job, or another job publishes here.
            StoreError: the store failed.
            OSError: the disk failed.
            Cancelled: soon after `cancel` is set.
        """
        target, documents = self.target, self._documents(cancel, patience)
        self._check_savers()
        restorer = Restorer(
            root=target.root,
            checkpoint=target.options.layout,
            documents=documents,
            node=target.member.node,
            ranks=target.member.ranks,
            world_size=target.member.world_size,
            progress=progress,
            say=target.say,
        )
        restore = restorer.restore if target.options.restore else None
        start = AttemptStart(target, documents, timeout, restore)
        with self._alone(cancel):
            self._clear()
            if self._has_begun:
                self.publisher.upkeep.own_boots.add(start.boot)
            begun = start.begin()
            for notice in abort_unfinished(documents.to, target.route, target.base):
                target.say(notice)
            self.publisher = self._make_publisher(begun)
            self._has_begun = True
        return begun

    def _check_savers(self) -> None:
        target, nodes = self.target, self.target.member.nodes
        savers = target.options.savers if isinstance(target.options.savers, tuple) else ()
        if any(node >= nodes for node in savers):
            raise ConfigError(
                f"checkpoints: 'savers' of {target.route.local!r} has node {max(savers)}, but this job has "
                f"{nodes}, counted from 0"
            )

    def _clear(self) -> None:
        """Removes the snapshots and calls of an earlier start.

        The steps that it has set aside stay until a checkpoint of this start is complete: they may be the
        only copies.
        """
        for directory in [self.spool, own_directory(self.target.root, "sending")]:
            shutil.rmtree(directory, ignore_errors=True)
        make_directories(self.spool)

    def _make_publisher(self, begun: BegunAttempt) -> Publisher:
        target, checkpoint = self.target, begun.checkpoint
        of_peers, layout = set(), None
        if checkpoint is not None:
            own = {file.path for file in checkpoint.files_of(target.member.node)}
            every = {file.path for file in checkpoint.files_of(None)}
            of_peers, layout = every - own, read_layout(checkpoint.layout)
            if target.options.restore:
                here = tree(target.root).files
                self._note_stored({path: here[path] for path in every if path in here})
        return Publisher(target, begun, StepWatch(target, self.spool, of_peers, layout))

    def watch(self, cancel: threading.Event, failed: Failed) -> None:
        """Takes complete steps until `cancel` is set; for a thread of its own, whose priority is lowered.

        `failed` is called with the error of a failed look; the next one tries again. Raises nothing.
        """
        be_nice()
        looked, rest = time.monotonic(), self.target.rest_seconds
        while not cancel.wait(min(CALL_SECONDS, rest)):
            has_calls = self.publisher.watch.calls.has_grown()
            if not has_calls and time.monotonic() - looked < rest:
                continue
            looked = time.monotonic()
            try:
                self.publisher.take()
            # Any error: the next look may succeed.
            except Exception as error:
                failed(error)

    def publish(self, cancel: threading.Event, failed: Failed) -> None:
        """Publishes the steps that were taken until `cancel` is set; for another thread, like `watch`."""
        be_nice()
        rest = self.target.rest_seconds
        while not cancel.is_set():
            event = cancel if self.publisher.has_ended else self.publisher.queue.arrived
            event.wait(min(IDLE_SECONDS, rest))
            try:
                with self._busy:
                    if not self.publisher.has_ended:
                        documents = self._documents(cancel, RetryPolicy())
                        self.publisher.send(documents)
                        self.publisher.tend(documents)
            except Cancelled:
                return
            # Any error: the next upload may succeed.
            except Exception as error:
                failed(error)
                cancel.wait(rest)

    def finish(
        self, cancel: threading.Event, patience: RetryPolicy, ending: RunEnd, goes_on: bool = False
    ) -> dict[str, str]:
        """Publishes complete steps after the end; returns the reasons that other steps are lost.

        From then on nothing is published until the next call: peers may decide by the checkpoints that they
        find. Unless the job `goes_on`, as it may after a failure, another one may use its place from now on.

        Raises `StoreError`, `TransferFailed`, `OSError` and `Cancelled`.
        """
        publisher = self.publisher
        try:
            with self._alone(cancel):
                publisher.finish(self._documents(cancel, patience), ending, goes_on)
        finally:
            for taken in publisher.published:
                self._note_stored(taken.files)
            if self.target.member.node == 0 and not goes_on:
                write_end(self._documents(cancel, patience), publisher.attempt)
        decision = publisher.watch.decision
        waiting = decision.waiting.items() if publisher.saves else ()
        return {step.name: reason for step, reason in waiting if step in decision.lost}

    def _note_stored(self, files: Files) -> None:
        """Notes that the contents of these files, as they are now, are in OBS as a part of a checkpoint."""
        for path, state in files.items():
            self._stored.setdefault(path, set()).add(state)

    def unpublished(self) -> set[str]:
        """Returns the paths that are in no checkpoint as they are now, without unfinished ones.

        A path that cannot be uploaded, such as a link out of the output, is one of them: it is an error.
        """
        target, here = self.target, tree(self.target.root)
        is_selected = selected(target.route.include, target.route.exclude) or (lambda path: True)
        left = {path for path, state in here.files.items() if state not in self._stored.get(path, ())}
        return {
            path for path in left | here.errors.keys() if not matches(UNFINISHED, path) and is_selected(path)
        }

    @contextmanager
    def _alone(self, cancel: threading.Event) -> Iterator[None]:
        """Runs the block while nothing is uploaded; an upload may hang in the network. Raises `Cancelled`."""
        while not self._busy.acquire(timeout=0.2):
            if cancel.is_set():
                raise Cancelled
        try:
            yield
        finally:
            self._busy.release()

    def _documents(self, cancel: threading.Event, patience: RetryPolicy) -> Documents:
        return Documents(RetriedStore(self.target.store, cancel, patience), self.target.place)


def ordinary_files(
    routes: Sequence[Route], base: Path, outputs: Sequence[CheckpointOutput] = (), has_ended: bool = True
) -> Callable[[str], bool]:
    """Returns a predicate of paths: the file is uploaded as an ordinary one, not as a part of a checkpoint.

    `routes` start at `base`; `outputs` are those of them that publish checkpoints in this job. Once all
    processes have ended, every file that was not published is an ordinary one, whatever its name. Before
    that, only a file that is certain to be in no checkpoint is. Unfinished files of frameworks, and ma_boot's
    own, never are.
    """
    roots = [route.path(base) for route in routes if options_of(route) is not None]
    publishing = {output.target.root: output for output in outputs}
    left = {output.target.root: output.unpublished() for output in outputs} if has_ended else {}

    def is_ordinary(path: str) -> bool:
        if any(is_own(root, path) for root in roots):
            return False
        for root in roots:
            name = os.path.relpath(path, root)
            if name.startswith("../"):
                continue
            if matches(UNFINISHED, name):
                return False
            output = publishing.get(root)
            if has_ended:
                return output is None or name in left[root]
            return output is not None and output.publisher.watch.is_ordinary(name)
        return True

    return is_ordinary
