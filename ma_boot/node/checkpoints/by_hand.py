"""Lists, verifies, downloads and removes checkpoints for command lines; previews a start."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable, NamedTuple

from ma_boot.errors import CheckpointDamaged
from ma_boot.node.checkpoints.disk import seen_at_once, tree
from ma_boot.node.checkpoints.downloads.restoring import Restorer
from ma_boot.node.checkpoints.layouts.formats import find_damage
from ma_boot.node.checkpoints.layouts.recognition import AUTO, read_layout, recognise
from ma_boot.node.checkpoints.options import CheckpointOptions
from ma_boot.node.checkpoints.records.documents import CheckpointRow, Documents, read_checkpoints
from ma_boot.node.checkpoints.records.keys import CheckpointName, ListedCheckpoint, Place
from ma_boot.node.checkpoints.records.manifest import Checkpoint, CheckpointFile, read_part
from ma_boot.node.checkpoints.records.retention import (
    Leftover,
    Superfluous,
    find_leftovers,
    find_superfluous,
    finish_removals,
    remove_checkpoint,
)
from ma_boot.node.checkpoints.upkeep import SPARED_SECONDS
from path_mapping.errors import NotFound
from path_mapping.localfs.source_file import crc64
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.store import Store
from path_mapping.transfer.scheduler import Progress
from path_mapping.workers.retry import RetriedStore, RetryPolicy


class StoredCheckpoints:
    """The checkpoints below one URL.

    Its methods raise `StoreError`, and `Cancelled` once `cancel` is set.
    """

    def __init__(self, store: Store, remote: ObsUrl, cancel: threading.Event, patience: RetryPolicy) -> None:
        self.place = Place.of(remote)
        self._documents = Documents(RetriedStore(store, cancel, patience), self.place)

    def rows(self) -> Iterator[CheckpointRow]:
        """Lists all checkpoints, the newest first."""
        return read_checkpoints(self._documents)

    def choose(self, step: str | None) -> Checkpoint | None:
        """Returns the newest complete checkpoint, or the newest one of this step; None if there is none."""
        for row in self.rows():
            if row.checkpoint is not None and step in (None, row.step):
                return row.checkpoint
        return None

    def problems(self, chosen: Checkpoint, contents: bool) -> list[str]:
        """Returns the differences from the manifests: by a listing, or by the `contents` of all objects."""
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
                wrong.append(f"{file.key} has other contents")
        return wrong

    def advice(self, chosen: Checkpoint) -> list[str]:
        """Returns files whose format looks damaged; only the framework can tell for certain."""
        strange = []
        for file in (file for part in chosen.parts for file in part.files):

            def read(offset: int, length: int, key: str = self.place.prefix + file.key) -> bytes:
                content = b""
                for piece in self._documents.to.store.read_from(self.place.bucket, key, offset):
                    content += piece
                    if len(content) >= length:
                        break
                return content[:length]

            problem = find_damage(file.path, file.size, read)
            strange += [f"{file.path}: {problem}"] if problem else []
        return strange

    def _crc(self, file: CheckpointFile) -> int | None:
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
        chosen: Checkpoint,
        directory: Path,
        progress: Callable[[Progress], None],
        say: Callable[[str], None],
    ) -> tuple[int, int]:
        """Downloads and verifies all files of a checkpoint; returns the number of files and bytes.

        Raises:
            CheckpointDamaged: an object is not what the manifest says.
            ConfigError: its layout is not known.
            OSError: the disk failed.
        """
        restorer = Restorer(
            root=directory,
            checkpoint=(AUTO,),
            documents=self._documents,
            node=chosen.nodes,  # none of its nodes: no file takes precedence
            ranks=(),
            world_size=0,
            progress=progress,
            say=say,
        )
        return restorer.restore(chosen)

    def find_superfluous(self, keep: int | None) -> Superfluous:
        """Returns the checkpoints to remove if the newest `keep` complete ones stay, and the one in use."""
        return find_superfluous(list(self._documents.list_checkpoints()), keep, self._in_use())

    def find_leftovers(self, older_than: float) -> list[Leftover]:
        """Returns the files that no manifest names, of all attempts that are over.

        The newest attempt may be running: its files are included only with `older_than`, an age in seconds by
        this machine's clock. If that is infinite, files of earlier attempts are included that are older than
        an hour.
        """
        attempts = filter(None, map(self.place.attempt_of, self._documents.keys(self.place.attempts)))
        newest = next((attempt.number for attempt, _ in attempts), 0)
        left = find_leftovers(
            self._documents, lambda attempt: older_than < math.inf or attempt.number < newest
        )
        age = SPARED_SECONDS if older_than == math.inf else older_than
        return [leftover for leftover in left if leftover.stored < time.time() - age]

    def _in_use(self) -> set[CheckpointName]:
        """Returns the checkpoint that the newest attempt has restored: it may be running."""
        for key in self._documents.keys(self.place.attempts):
            if not key.endswith("/begin.json"):
                continue
            begin = self._documents.read(key)
            parts = begin.get("parts") if isinstance(begin, dict) else None
            try:
                return {read_part(parts[0]).name} if parts else set()
            except (CheckpointDamaged, KeyError, TypeError):
                return set()
        return set()

    def remove(self, sets: Sequence[ListedCheckpoint], left: Sequence[Leftover]) -> None:
        """Removes checkpoints and leftovers, and finishes interrupted removals."""
        finish_removals(self._documents)
        everything = list(self._documents.list_checkpoints())
        for known in sets:
            remove_checkpoint(self._documents, known, everything)
        for leftover in left:
            self._documents.delete(leftover.key)


class PlannedAction(NamedTuple):
    """The effect of a start on a checkpoint in OBS, or on the files of a step on the disk, and the reason.

    `action` is `restore`, `pass` (over), `remove`, or for files on the disk `keep`, `aside` or `stay`.
    """

    action: str
    name: str
    files: int
    size: int
    reason: str


def preview_start(
    stored: StoredCheckpoints, route: Route, options: CheckpointOptions, base: Path
) -> Iterator[PlannedAction]:
    """Returns the effects of the next start of a job, for all of its nodes.

    Raises `StoreError`, and `OSError` if the disk cannot be read.
    """
    chosen: Checkpoint | None = None
    if options.restore:
        for row in stored.rows():
            if row.checkpoint is not None:
                chosen = row.checkpoint
                break
            yield PlannedAction("pass", str(row.listed.name), 0, 0, reason=f"incomplete: {row.why}")
        if chosen is None:
            reason = "no checkpoint is complete: the training starts from the beginning"
            yield PlannedAction("restore", "nothing", 0, 0, reason=reason)
        else:
            reason = "the newest complete checkpoint"
            yield PlannedAction("restore", str(chosen), chosen.files, size=chosen.size, reason=reason)
    yield from _preview_disk(route, options, base, chosen)
    if options.keep is not None:
        reason = f"older than the newest {options.keep}: when a checkpoint of this start is complete"
        for listed in stored.find_superfluous(options.keep).complete:
            yield PlannedAction("remove", str(listed.name), 0, 0, reason=reason)


def _preview_disk(
    route: Route, options: CheckpointOptions, base: Path, chosen: Checkpoint | None
) -> Iterator[PlannedAction]:
    """Returns the effects on the steps that are on the disk before the start, which it does not publish."""
    here = tree(route.path(base)).files
    in_checkpoint = {file.path: file.size for file in chosen.files_of(None)} if chosen else {}
    layout = read_layout(chosen.layout) if chosen else recognise(options.layout, seen_at_once(here)).layout
    for step, paths in layout.steps(here).items() if layout else ():
        size = sum(here[path].size for path in paths)
        if not options.restore:
            action, reason = "stay", "a start publishes only what it has written itself"
        elif all(in_checkpoint.get(path) == here[path].size for path in paths):
            action, reason = "keep", "of the restored checkpoint, if the checksums are the same"
        else:
            action, reason = "aside", "not of the restored checkpoint: moved beside the output"
        yield PlannedAction(action, f"step {step.name} on this disk", len(paths), size=size, reason=reason)
