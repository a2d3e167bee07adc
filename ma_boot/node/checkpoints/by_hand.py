"""The sets of a place by hand: listed, verified, fetched and removed; and what a start would do with them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.disk import seen_at_once, tree
from ma_boot.node.checkpoints.formats import damage
from ma_boot.node.checkpoints.keys import KnownSet, Place, SetName
from ma_boot.node.checkpoints.layouts import AUTO, layout_of_set, recognised
from ma_boot.node.checkpoints.manifest import CheckpointSet, SetFile, read_part
from ma_boot.node.checkpoints.options import CheckpointOptions
from ma_boot.node.checkpoints.restoring import Restorer
from ma_boot.node.checkpoints.retention import (
    Leftover,
    Superfluous,
    finish_removals,
    leftovers,
    remove_set,
    superfluous,
)
from ma_boot.node.checkpoints.sets import Documents, SetRow, read_sets
from ma_boot.node.checkpoints.upkeep import SPARED_SECONDS
from path_mapping.errors import NotFound
from path_mapping.localfs.source_file import crc64
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.store import Store
from path_mapping.transfer.scheduler import Progress
from path_mapping.workers.retry import RetriedStore, RetryPolicy


class SetsByHand:
    """The sets below one URL, for one user at a command line.

    Its methods raise `StoreError`, and `Cancelled` once `cancel` is set.
    """

    def __init__(self, store: Store, remote: ObsUrl, cancel: threading.Event, patience: RetryPolicy) -> None:
        self.place = Place.of(remote)
        self._documents = Documents(RetriedStore(store, cancel, patience), self.place)

    def rows(self) -> Iterator[SetRow]:
        """All sets, the newest first."""
        return read_sets(self._documents)

    def chosen(self, step: str | None) -> CheckpointSet | None:
        """The newest whole set, or the newest one of this step; None if there is none."""
        for row in self.rows():
            if row.whole is not None and step in (None, row.step):
                return row.whole
        return None

    def problems(self, chosen: CheckpointSet, contents: bool) -> list[str]:
        """What of a set is not as its manifests say: by a listing, or by the `contents` of all objects."""
        objects = self._documents.objects(f"{self.place.prefix}{chosen.name.attempt}/")
        stored = {
            state.key[len(self.place.prefix) :]: (state.size, state.etag.strip('"')) for state in objects
        }
        wrong: list[str] = []
        for file in (file for part in chosen.parts for file in part.files):
            if file.key not in stored:
                wrong.append(f"{file.key} is gone")
            elif stored[file.key][0] != file.size:
                wrong.append(f"{file.key} has {stored[file.key][0]} bytes, expected {file.size}")
            elif file.etag and stored[file.key][1] != file.etag:
                wrong.append(f"{file.key} was replaced")
            elif contents and self._crc(file) != file.crc64:
                wrong.append(f"{file.key} has another content")
        return wrong

    def advice(self, chosen: CheckpointSet) -> list[str]:
        """What looks strange in the formats of its files, by their suffixes: the framework decides."""
        strange = []
        for file in (file for part in chosen.parts for file in part.files):

            def read(offset: int, length: int, key: str = self.place.prefix + file.key) -> bytes:
                content = b""
                for piece in self._documents.to.store.read_from(self.place.bucket, key, offset):
                    content += piece
                    if len(content) >= length:
                        break
                return content[:length]

            why = damage(file.path, file.size, read)
            strange += [f"{file.path}: {why}"] if why else []
        return strange

    def _crc(self, file: SetFile) -> int | None:
        def content() -> int | None:
            crc = 0
            for piece in self._documents.to.store.read(self.place.bucket, self.place.prefix + file.key):
                self._documents.to.check()
                crc = crc64(piece, crc)
            return crc

        try:
            return self._documents.to.retrying(content)
        except NotFound:
            return None

    def fetch(
        self,
        chosen: CheckpointSet,
        directory: Path,
        progress: Callable[[Progress], None],
        say: Callable[[str], None],
    ) -> tuple[int, int]:
        """Puts all files of a set into a directory, verified; returns how many files and bytes it fetched.

        Raises:
            CheckpointDamaged: an object is not what the manifest says.
            ConfigError: its layout is not known.
            OSError: the disk failed.
        """
        restorer = Restorer(directory, (AUTO,), self._documents, chosen.nodes, (), 0, progress, say)
        return restorer(chosen)

    def superfluous(self, keep: int | None) -> Superfluous:
        """What may go if the newest `keep` whole sets stay, or all, and what is in use."""
        return superfluous(list(self._documents.known_sets()), keep, self._in_use())

    def leftovers(self, older_than: float) -> list[Leftover]:
        """Files that no manifest names, of all attempts that are over.

        The newest attempt may be running: its files are meant only if `older_than` says so, an age in seconds
        by this machine's clock. If it is infinite, files of earlier attempts are meant, older than an hour.
        """
        attempts = filter(None, map(self.place.attempt_of, self._documents.keys(self.place.attempts)))
        newest = next((attempt.number for attempt, _ in attempts), 0)
        left = leftovers(self._documents, lambda attempt: older_than < math.inf or attempt.number < newest)
        age = SPARED_SECONDS if older_than == math.inf else older_than
        return [leftover for leftover in left if leftover.stored < time.time() - age]

    def _in_use(self) -> set[SetName]:
        """The set that the newest attempt has restored: it may be running."""
        for key in self._documents.keys(self.place.attempts):
            if not key.endswith("/begin.json"):
                continue
            begin = self._documents.read(key)
            parts = begin.get("set") if isinstance(begin, dict) else None
            try:
                return {read_part(parts[0]).name} if parts else set()
            except (CheckpointDamaged, KeyError, TypeError):
                return set()
        return set()

    def remove(self, sets: Sequence[KnownSet], left: Sequence[Leftover]) -> None:
        """Removes sets and leftovers, and what an interrupted removal has left."""
        finish_removals(self._documents)
        everything = list(self._documents.known_sets())
        for known in sets:
            remove_set(self._documents, known, everything)
        for leftover in left:
            self._documents.delete(leftover.key)


class Foreseen(NamedTuple):
    """What becomes of a set in the store, or of the files of a step on the disk, and why.

    `action` is `restore`, `pass` (over), `remove`, or for files on the disk `keep`, `aside` or `stay`.
    """

    action: str
    name: str
    files: int
    size: int
    reason: str


def foreseen(sets: SetsByHand, route: Route, options: CheckpointOptions, base: Path) -> Iterator[Foreseen]:
    """What the next start of a job would do, for all of its nodes.

    Raises `StoreError`, and `OSError` if the disk cannot be read.
    """
    chosen: CheckpointSet | None = None
    if options.restore:
        for row in sets.rows():
            if row.whole is not None:
                chosen = row.whole
                break
            yield Foreseen("pass", str(row.known.name), 0, 0, f"does not count: {row.why}")
        if chosen is None:
            yield Foreseen(
                "restore", "nothing", 0, 0, "no set counts: the training starts from the beginning"
            )
        else:
            yield Foreseen("restore", str(chosen), chosen.files, chosen.size, "the newest set that counts")
    yield from _of_disk(route, options, base, chosen)
    if options.keep is not None:
        for known in sets.superfluous(options.keep).whole:
            yield Foreseen(
                "remove",
                str(known.name),
                0,
                0,
                f"older than the newest {options.keep}: when a set of this start counts",
            )


def _of_disk(
    route: Route, options: CheckpointOptions, base: Path, chosen: CheckpointSet | None
) -> Iterator[Foreseen]:
    """The steps that are on the disk before the start: none of them is published by it."""
    here = tree(route.path(base)).files
    of_set = {file.path: file.size for file in chosen.files_of(None)} if chosen else {}
    layout = layout_of_set(chosen.layout) if chosen else recognised(options.layout, seen_at_once(here)).layout
    for step, paths in layout.steps(here).items() if layout else ():
        size = sum(here[path].size for path in paths)
        if not options.restore:
            action, why = "stay", "a start publishes what it has written itself"
        elif all(of_set.get(path) == here[path].size for path in paths):
            action, why = "keep", "of the set that is restored, if the checksums are the same"
        else:
            action, why = "aside", "not of the set that is restored: moved beside the output"
        yield Foreseen(action, f"step {step.name} on this disk", len(paths), size, why)
