"""The checkpoints of one output on one node: restored at the start, published from then on."""

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
from ma_boot.node.checkpoints.attempts import Restored, Start, write_end
from ma_boot.node.checkpoints.disk import is_own, own_directory, tree
from ma_boot.node.checkpoints.keys import Place
from ma_boot.node.checkpoints.layout import UNFINISHED, matches
from ma_boot.node.checkpoints.layouts import layout_of_set
from ma_boot.node.checkpoints.options import CheckpointOptions, options_of
from ma_boot.node.checkpoints.publication import JobStart, Publication
from ma_boot.node.checkpoints.publisher import Publisher
from ma_boot.node.checkpoints.restoring import Restorer
from ma_boot.node.checkpoints.sets import Documents
from ma_boot.node.checkpoints.steps import Files, RunEnd
from ma_boot.node.checkpoints.watch import StepWatch
from path_mapping.errors import Cancelled
from path_mapping.localfs.atomic_file import make_directories
from path_mapping.localfs.source_file import FileState
from path_mapping.mapping.routes import Route
from path_mapping.mapping.selection import selected
from path_mapping.stores.store import Store
from path_mapping.transfer.periodic import be_nice
from path_mapping.transfer.scheduler import Progress
from path_mapping.transfer.transfer import abort_unfinished
from path_mapping.workers.retry import RetriedStore, RetryPolicy

WORD_SECONDS = 0.2  # between two looks for what the training says


class CheckpointOutput:
    """An output with `checkpoint`, on one node.

    Its relative local path starts at `base`. `spool` is the directory for what the training says of its
    steps, one for all outputs; by default it is this one's. `say` gets lines for people, `counted` the step,
    files, bytes and seconds of each part that was published.
    """

    def __init__(
        self,
        route: Route,
        base: Path,
        store: Store,
        start: JobStart,
        say: Callable[[str], None],
        counted: Callable[[str, int, int, float], None],
        spool: Path | None = None,
    ) -> None:
        options = options_of(route)
        assert options is not None
        self.options: CheckpointOptions = options
        self.route, self.base, self.store, self.start = route, base, store, start
        self.say, self.counted = say, counted
        self.root = route.path(base)
        self.spool = spool or own_directory(self.root, "said")
        self.publisher: Publisher | None = None
        self._busy = threading.Lock()
        self._stored: dict[str, set[FileState]] = {}  # files in OBS as parts of sets, of all attempts

    @property
    def place(self) -> Place:
        """Where its sets are."""
        return Place.of(self.route.remote)

    def begin(
        self,
        cancel: threading.Event,
        progress: Callable[[Progress], None],
        patience: RetryPolicy,
        timeout: float,
    ) -> Restored:
        """Agrees with all nodes on the set to go on from, and puts it in place; then the training may begin.

        Raises:
            NodesLate: other nodes gave no sign of life within `timeout` seconds of the last one.
            ConfigError: the newest set cannot be used by this job, or another job publishes here.
            StoreError: the store failed.
            OSError: the disk failed.
            Cancelled: soon after `cancel` is set.
        """
        documents, start, layout = self._documents(cancel, patience), self.start, self.options.layout
        savers = self.options.savers if isinstance(self.options.savers, tuple) else ()
        if any(node >= start.nodes for node in savers):
            raise ConfigError(
                f"checkpoints: 'savers' of {self.route.local!r} has node {max(savers)}, but this job has "
                f"{start.nodes}, counted from 0"
            )
        restorer = Restorer(
            self.root, layout, documents, start.node, start.ranks, start.world, progress, self.say
        )
        restore = restorer if self.options.restore else None
        attempt = Start(documents, start, layout, self.say, timeout, restore)
        with self._alone(cancel):
            self._clear()
            if self.publisher is not None:
                self.publisher.upkeep.own_boots.add(attempt.boot)
            restored = attempt.begin()
            for notice in abort_unfinished(documents.to, self.route, self.base):
                self.say(notice)
            self.publisher = self._publisher(restored)
        return restored

    def _clear(self) -> None:
        """Removes what an earlier start has left in the directories of ours.

        What it set aside may be the only copy of a step: it stays until a set of this start counts.
        """
        for directory in [self.spool, own_directory(self.root, "sending")]:
            shutil.rmtree(directory, ignore_errors=True)
        make_directories(self.spool)

    def _publisher(self, restored: Restored) -> Publisher:
        chosen = restored.chosen
        resumed = chosen.name if chosen else None
        what = Publication(
            self.route, self.options, self.base, self.place, restored.attempt, self.start, resumed, self.say,
            self.counted,
        )  # fmt: skip
        of_others, layout = set(), None
        if chosen is not None:
            own = {file.path for file in chosen.files_of(self.start.node)}
            every = {file.path for file in chosen.files_of(None)}
            of_others, layout = every - own, layout_of_set(chosen.layout)
            if self.options.restore:
                here = tree(self.root).files
                self._note_stored({path: here[path] for path in every if path in here})
        return Publisher(what, StepWatch(what, self.spool, of_others, layout))

    def watch(self, cancel: threading.Event, failed: Callable[[Exception], None]) -> None:
        """Takes steps that are complete until `cancel` is set; for a thread of its own, which becomes nice.

        `failed` is called with what went wrong in a look; the next one tries again. Raises nothing.
        """
        be_nice()
        looked = time.monotonic()
        while self.publisher is not None and not cancel.wait(
            min(WORD_SECONDS, self.publisher.what.rest_seconds)
        ):
            has_news = self.publisher.watch.has_new_notes()
            if not has_news and time.monotonic() - looked < self.publisher.what.rest_seconds:
                continue
            looked = time.monotonic()
            try:
                self.publisher.take()
            except Exception as error:  # whatever it is: the next look may do better
                failed(error)

    def publish(self, cancel: threading.Event, failed: Callable[[Exception], None]) -> None:
        """Publishes the steps that were taken until `cancel` is set; for another thread, like `watch`."""
        be_nice()
        while self.publisher is not None and not cancel.is_set():
            event = cancel if self.publisher.over else self.publisher.arrived
            event.wait(min(1.0, self.publisher.what.rest_seconds))
            try:
                with self._busy:
                    if not self.publisher.over:
                        documents = self._documents(cancel, RetryPolicy())
                        self.publisher.send(documents)
                        self.publisher.tend(documents)
            except Cancelled:
                return
            except Exception as error:  # whatever it is: the next time may do better
                failed(error)
                cancel.wait(self.publisher.what.rest_seconds)

    def cut(self) -> None:
        """A process of this node has died, perhaps while it wrote; from any thread, without a wait."""
        if self.publisher is not None:
            self.publisher.watch.cut()

    def finish(
        self, cancel: threading.Event, patience: RetryPolicy, ending: RunEnd, goes_on: bool = False
    ) -> dict[str, str]:
        """Publishes what is complete after the end; returns why other steps of this start are not.

        From then on nothing is published but by a further call: others may decide by what they find. Unless
        the job `goes_on`, as it may after a failure, another one may use its place from now on.

        Raises `StoreError`, `TransferFailed`, `OSError` and `Cancelled`.
        """
        publisher = self.publisher
        if publisher is None:
            return {}
        try:
            with self._alone(cancel):
                documents = self._documents(cancel, patience)
                publisher.finish(documents, ending, goes_on)
        finally:
            for taken in publisher.published():
                self._note_stored(taken.files)
            if self.start.node == 0 and not goes_on:
                write_end(self._documents(cancel, patience), publisher.what.attempt)
        saves = self.start.node in publisher.what.savers(publisher.watch.layout)
        return {
            step.name: why
            for step, why in publisher.watch.waiting.items()
            if saves and step in publisher.watch.lost
        }

    def _note_stored(self, files: Files) -> None:
        """The content of these files, as they are now, is in OBS as a part of a set."""
        for path, state in files.items():
            self._stored.setdefault(path, set()).add(state)

    def unpublished(self) -> set[str]:
        """The paths that are in no set as they are now, without unfinished ones.

        A path that cannot be uploaded, such as a link out of the output, is one of them: it is an error.
        """
        is_selected = selected(self.route.include, self.route.exclude) or (lambda path: True)
        here = tree(self.root)
        left = {path for path, state in here.files.items() if state not in self._stored.get(path, ())}
        return {
            path for path in left | here.errors.keys() if not matches(UNFINISHED, path) and is_selected(path)
        }

    def is_ordinary_by_now(self, path: str) -> bool:
        """Returns whether a file, relative to the output, is in no step while the training runs."""
        return self.publisher is not None and self.publisher.watch.is_ordinary(path)

    @contextmanager
    def _alone(self, cancel: threading.Event) -> Iterator[None]:
        """Runs the block when nothing is sent, which may hang in the network; raises `Cancelled`."""
        while not self._busy.acquire(timeout=0.2):
            if cancel.is_set():
                raise Cancelled
        try:
            yield
        finally:
            self._busy.release()

    @property
    def last_published(self) -> str:
        """The newest step of this node that is published; empty for none."""
        return self.publisher.last_published if self.publisher is not None else ""

    @property
    def last_whole(self) -> tuple[str, float]:
        """The newest step that is known to count, and for how many seconds it has; empty for none."""
        whole = self.publisher.newest_whole if self.publisher is not None else None
        return ("", 0.0) if whole is None else (whole[0], time.monotonic() - whole[1])

    def _documents(self, cancel: threading.Event, patience: RetryPolicy) -> Documents:
        return Documents(RetriedStore(self.store, cancel, patience), self.place)


def ordinary_files(
    routes: Sequence[Route], base: Path, outputs: Sequence[CheckpointOutput] = (), has_ended: bool = True
) -> Callable[[str], bool]:
    """Returns a predicate of paths: the file is uploaded as an ordinary one, not as a part of a checkpoint.

    `routes` start at `base`; `outputs` are those of them that publish checkpoints in this job. Once all
    processes have ended, every file that was not published is an ordinary one, whatever its name. Before,
    it is a file that will certainly be in no set. Unfinished files of frameworks, and ours, never are.
    """
    roots = [route.path(base) for route in routes if options_of(route) is not None]
    publishing = {output.root: output for output in outputs}
    left = {output.root: output.unpublished() for output in outputs} if has_ended else {}

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
            return output is not None and output.is_ordinary_by_now(name)
        return True

    return is_ordinary
