"""The checkpoints of one output on one node: restored at the start, published from then on."""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import AbstractSet, Callable, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

from path_mapping.checkpoints.attempts import Begun, Member, Start
from path_mapping.checkpoints.local_files import local_files, scratch_of
from path_mapping.checkpoints.publication import Publication
from path_mapping.checkpoints.publisher import Publisher
from path_mapping.checkpoints.restoring import Restorer
from path_mapping.checkpoints.step_watch import StepWatch
from path_mapping.errors import Cancelled
from path_mapping.layouts import LAYOUTS, layout_of, said_steps
from path_mapping.localfs import make_directories
from path_mapping.mapping import Route
from path_mapping.sets import OWN, CheckpointSet, Documents, Place
from path_mapping.stores import FileStore
from path_mapping.transfer import Progress, RetryPolicy, abort_unfinished, be_nice, settle_seconds

LOOK_SECONDS = 10.0  # the interval of an output that has none


class Restored(NamedTuple):
    """What an attempt goes on from: the set, None for none, and the files and bytes fetched for it."""

    chosen: Optional[CheckpointSet]
    files: int
    size: int


class CheckpointOutput:
    """An output with `checkpoint`, on one node.

    Its relative local path starts at `base`; `ranks` are those of this node, `world` is the number of all.
    `job` is the name of the job, for people. `spool` is the directory for what the training says of its
    steps, one for all outputs; by default it is in this one. `told` gets lines for people, `counted` the
    step, files, bytes and seconds of each part that was published.
    """

    def __init__(
        self,
        route: Route,
        base: Path,
        store: FileStore,
        node: int,
        nodes: int,
        ranks: Tuple[int, ...],
        world: int,
        told: Callable[[str], None],
        counted: Callable[[str, int, int, float], None],
        job: str = "",
        spool: Optional[Path] = None,
    ) -> None:
        self.job = job
        self.route, self.base, self.store = route, base, store
        self.node, self.nodes, self.ranks, self.world = node, nodes, ranks, world
        self.told, self.counted = told, counted
        self.spool = spool or scratch_of(route.path(base), "spool")
        self.publisher: Optional[Publisher] = None
        self._busy = threading.Lock()

    @property
    def place(self) -> Place:
        """Where its sets are."""
        return Place.of(self.route.remote)

    @property
    def settle(self) -> float:
        """How long a file must not change, in seconds."""
        return settle_seconds(self.route.interval or LOOK_SECONDS)

    def begin(
        self,
        cancel: threading.Event,
        progress: Callable[[Progress], None],
        patience: RetryPolicy,
        timeout: float,
    ) -> Restored:
        """Agrees with all nodes on the set to go on from, and puts it in place; then the training may begin.

        Raises:
            NodesMissing: other nodes did not come within `timeout` seconds of the last news from any.
            SetUnusable: the newest set cannot be used by this job.
            StoreError: the store failed.
            OSError: the disk failed.
            Cancelled: soon after `cancel` is set.
        """
        with self._alone(cancel):
            return self._begun(cancel, progress, patience, timeout)

    def _begun(
        self,
        cancel: threading.Event,
        progress: Callable[[Progress], None],
        patience: RetryPolicy,
        timeout: float,
    ) -> Restored:
        documents, root = self._documents(cancel, patience), self.route.path(self.base)
        restorer = Restorer(
            root,
            self.route.checkpoint,
            documents,
            self.place,
            self.node,
            self.ranks,
            self.world,
            progress,
            self.told,
        )
        latest = self.route.restore is not None
        member = Member.starting(self.node, self.nodes, self.job, self.route.checkpoint)
        restore = restorer if latest else lambda chosen: (0, 0)
        begun = Start(documents, self.place, member, latest, restore, self.told, timeout).begin()
        for notice in abort_unfinished(self.store, self.route, self.base, cancel):
            self.told(notice)
        shutil.rmtree(self.spool, ignore_errors=True)
        make_directories(self.spool)
        self.publisher = self._publisher(begun)
        return Restored(begun.chosen, *begun.fetched)

    def _publisher(self, begun: Begun) -> Publisher:
        what = Publication(
            self.route, self.base, self.place, begun.attempt, self.node, self.nodes, self.ranks, self.world,
            begun.chosen.name if begun.chosen else None, self.job, self.told, self.counted,
        )  # fmt: skip
        return Publisher(
            what, StepWatch(self.route.checkpoint, self.ranks, self.settle, local_files(what.root))
        )

    def publish(self, cancel: threading.Event, failed: Callable[[Exception], None]) -> None:
        """Publishes steps until `cancel` is set; for a thread of its own, which becomes nice.

        `failed` is called with what went wrong in a look; the next one tries again. Raises nothing.
        """
        be_nice()
        while not cancel.wait(self.settle):
            try:
                with self._busy:
                    if self.publisher is not None:
                        self.publisher.look(self._documents(cancel, RetryPolicy()), self._said())
            except Cancelled:
                return
            except Exception as error:  # whatever it is: the next look may do better
                failed(error)

    def finish(
        self, cancel: threading.Event, patience: RetryPolicy, ended_well: bool, hurry: bool
    ) -> Dict[str, str]:
        """Publishes what is complete after the end; returns why other steps are not.

        Raises `StoreError`, `TransferFailed`, `OSError` and `Cancelled`.
        """
        if self.publisher is None:
            return {}
        with self._alone(cancel):
            return self.publisher.finish(self._documents(cancel, patience), self._said(), ended_well, hurry)

    @contextmanager
    def _alone(self, cancel: threading.Event) -> Iterator[None]:
        """Runs the block when no look goes on, which may hang in the network; raises `Cancelled`."""
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
        found = self.publisher.published if self.publisher is not None else {}
        return found[max(found)].local.step.name if found else ""

    @property
    def last_whole(self) -> Tuple[str, float]:
        """The newest step that is known to be whole, and for how many seconds it has been; empty for none."""
        whole = self.publisher.newest_whole if self.publisher is not None else None
        return ("", 0.0) if whole is None else (whole[0], time.monotonic() - whole[1])

    def _said(self) -> AbstractSet[int]:
        """The steps of which the training has said that they are complete on this node."""
        texts = []
        for file in sorted(self.spool.glob("*.jsonl")):
            with suppress(OSError):
                texts.append(file.read_text(encoding="utf-8", errors="replace"))
        return said_steps(texts, self.ranks, os.path.realpath(self.route.path(self.base)))

    def _documents(self, cancel: threading.Event, patience: RetryPolicy) -> Documents:
        return Documents(self.store, self.place.bucket, cancel, patience)


def files_of_no_set(routes: Sequence[Route], base: Path) -> Callable[[str], bool]:
    """Whether the file at a path belongs to no set of these outputs and names none: it is sent as any other.

    For an output whose layout is not known (yet), a file of any layout is taken for one of a set.
    """
    roots = {route.path(base): route.checkpoint for route in routes if route.checkpoint}
    layouts = {
        root: (found,) if found is not None else tuple(LAYOUTS.values())
        for root, checkpoint in roots.items()
        for found in (layout_of(checkpoint, local_files(root)),)
    }

    def is_other(path: str) -> bool:
        for root, known in layouts.items():
            name = os.path.relpath(path, root)
            if name.startswith("../"):
                continue
            if name.startswith(f"{OWN}/"):
                return False
            return not any(one.step_of(name) is not None or one.is_pointer(name) for one in known)
        return True

    return is_other
