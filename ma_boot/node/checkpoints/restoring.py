"""Puts a set in place on this node: what is here is kept, the rest is fetched, verified, then moved in.

Nothing of another set stays where a loader would find it: some take the highest number, others the newest
time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from ma_boot.errors import CheckpointDamaged, ConfigError
from ma_boot.node.checkpoints.disk import content_crc, inside, own_directory, seen_at_once, tree
from ma_boot.node.checkpoints.layout import Layout
from ma_boot.node.checkpoints.layouts import layout_of_set, recognised
from ma_boot.node.checkpoints.manifest import CheckpointSet, SetFile
from ma_boot.node.checkpoints.sets import Documents
from ma_boot.node.checkpoints.steps import Files
from ma_boot.wording import Message, ProgressLine
from path_mapping.errors import Corrupted, NoSpace, NotFound, Replaced, printable
from path_mapping.localfs.atomic_file import check_contained, make_directories
from path_mapping.planning.local_tree import SpaceNeed, free_space, local_entry, shortages
from path_mapping.planning.plan import Copy
from path_mapping.transfer.scheduler import Progress
from path_mapping.transfer.transfer import FailedCopy, fetch_files
from path_mapping.workers.retry import RetriedStore, RetryPolicy

AT_ONCE = 1.0  # seconds for which a fetch is retried before the object is looked at


@dataclass(frozen=True)
class Restorer:
    """Restores sets into the directory `root` for the node of these `ranks`.

    `checkpoint` is the layout as a route names it, for files that other starts have left; `world` the number
    of ranks of the job, 0 if it does not matter; `node` is this node's number.
    """

    root: Path
    checkpoint: Sequence[str]
    documents: Documents
    node: int
    ranks: Sequence[int]
    world: int
    progress: Callable[[Progress], None]
    say: Callable[[str], None]

    def __call__(self, chosen: CheckpointSet | None) -> tuple[int, int]:
        """Puts this set in place, and moves aside any other one; returns the files and bytes fetched.

        Raises:
            ConfigError: the set was written by another number of ranks, and its layout does not allow that.
            CheckpointDamaged: an object is not what the manifest says.
            StoreError: the store failed.
            NoSpace: the disk is too small; nothing was fetched.
            UnsafeTarget: a link in the directory leads out of it.
            OSError: the disk failed.
            Cancelled: the documents' `cancel` is set.
        """
        local = tree(self.root).files
        layout = self._layout(chosen, local)
        if layout is None:
            return 0, 0
        wanted = self._wanted(chosen, layout) if chosen is not None else ()
        kept = {file.path for file in wanted if file.path in local and self._is(self.root / file.path, file)}
        fetched = self._fetch([file for file in wanted if file.path not in kept])
        self._set_aside(layout, [path for path in local if path not in kept])
        self._move_in(layout, [file for file in wanted if file.path not in kept])
        for path, text in layout.marker_files([file.path for file in wanted]).items():
            check_contained(self.root / path, self.root)
            _write(self.root / path, text)
        shutil.rmtree(inside(self.root, "restoring"), ignore_errors=True)
        with suppress(OSError):  # not empty
            os.rmdir(inside(self.root, "restoring").parent)
        return fetched

    def _layout(self, chosen: CheckpointSet | None, local: Files) -> Layout | None:
        """The layout that the set names; else that of the files on the disk, None if they show none."""
        if chosen is None:
            return recognised(self.checkpoint, seen_at_once(local)).layout
        try:
            return layout_of_set(chosen.layout)
        except ValueError as error:
            raise ConfigError(
                f"checkpoints: {chosen.name} has the layout {chosen.layout!r}, which this version of "
                "ma_boot does not know: use the version that wrote it"
            ) from error

    def _wanted(self, chosen: CheckpointSet, layout: Layout) -> tuple[SetFile, ...]:
        """The files of the set that this node needs; of a path that several nodes have, its own."""
        files = {file.path: file for file in chosen.files_of(None)}
        if self.world and chosen.world != self.world and not layout.reshards(list(files)):
            raise ConfigError(
                Message.of(
                    "checkpoints: {} in {} was written by {} ranks on {} nodes, this job has {}, and another "
                    "number cannot load {} checkpoints: start {} ranks, or convert the set, or leave "
                    "out 'restore'",
                    chosen.name,
                    self.documents.place,
                    chosen.world,
                    chosen.nodes,
                    self.world,
                    layout.name,
                    chosen.world,
                )
            )
        files.update((file.path, file) for file in chosen.files_of(self.node))
        needed = layout.needed(list(files), self.ranks) if self.ranks else list(files)
        return tuple(files[path] for path in needed if not layout.is_pointer(path))

    def _is(self, path: Path, file: SetFile) -> bool:
        """Whether a file is what the manifest says."""
        local = local_entry(path)
        if local is None or local.file_size != file.size:
            return False
        try:
            return content_crc(path, self.documents.to.check) == file.crc64
        except OSError:
            return False

    def _fetch(self, wanted: Sequence[SetFile]) -> tuple[int, int]:
        """Downloads and verifies files, beside their places; what an earlier run has fetched is used."""
        scratch, place = inside(self.root, "restoring"), self.documents.place
        by_requests = self.documents.to.store.signer is not None
        copies = []
        for file in wanted:
            path, key = scratch / file.path, place.prefix + file.key
            if not self._is(path, file):
                etag = f'"{file.etag}"' if file.etag and by_requests else ""
                copies.append(Copy(str(path), str(scratch), place.bucket, key, file.size, etag))
        if not copies:
            return 0, 0
        need = SpaceNeed()
        for copy in copies:
            need = need.plus(copy.size, None)
        short = shortages({self.root: need}, {self.root: free_space(self.root)})
        if short:
            raise NoSpace(short)
        make_directories(scratch)
        self._download(copies)
        for file in wanted:
            path = scratch / file.path
            if not self._is(path, file):
                path.unlink()
                url = printable(f"{place}{file.key}")
                raise CheckpointDamaged(f"{url}: its content is not the one that was published")
        return len(copies), sum(copy.size for copy in copies)

    def _download(self, copies: Sequence[Copy]) -> None:
        """Downloads: with few retries before the objects are looked at, as damage is not waited for."""
        patient = self.documents.to
        for to in (RetriedStore(patient.store, patient.cancel, RetryPolicy(AT_ONCE)), patient):
            failures = fetch_files(copies, to, self.progress).failed
            for failed in failures:
                self._judge(failed)
            if not failures:
                return
            copies = [failed.copy for failed in failures]
        raise failures[0].error

    def _judge(self, failed: FailedCopy) -> None:
        """Raises `CheckpointDamaged` if the object is to blame, not the way to it."""
        copy, error = failed
        url = printable(copy.url)
        if isinstance(error, NotFound):
            raise CheckpointDamaged(f"{url} is gone") from error
        if isinstance(error, Replaced):
            raise CheckpointDamaged(f"{url} was replaced") from error
        if isinstance(error, Corrupted):
            raise CheckpointDamaged(str(error)) from error
        stored = self.documents.to.store.find(copy.bucket, copy.key)
        if stored is None:
            raise CheckpointDamaged(f"{url} is gone") from error
        if stored.size != copy.size:
            raise CheckpointDamaged(f"{url} has {stored.size} bytes, expected {copy.size}") from error
        if copy.etag and stored.version.strip('"') != copy.etag.strip('"'):
            raise CheckpointDamaged(f"{url} was replaced") from error

    def _set_aside(self, layout: Layout, paths: Sequence[str]) -> None:
        """Moves files of sets out of the way of loaders, and deletes pointers and what was aside before."""
        for path in filter(layout.is_pointer, paths):
            os.unlink(self.root / path)
        old = [path for path in paths if layout.step_of(path) is not None and not layout.is_pointer(path)]
        if not old:
            return
        aside = own_directory(self.root, "aside")
        for path in old:
            (aside / path).parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.root / path, aside / path)
            with suppress(OSError):  # not empty
                for parent in Path(path).parents[:-1]:
                    (self.root / parent).rmdir()
        steps = sorted(layout.steps(old))
        if steps:
            named = ", ".join(step.name for step in steps[-3:])
            files = f"{len(old)} files of step {named}, which are not of the set restored"
            self.say(ProgressLine(f"moved aside to {aside}: {files}"))

    def _move_in(self, layout: Layout, fetched: Sequence[SetFile]) -> None:
        """Moves the fetched files into their places, what describes others last."""
        scratch = inside(self.root, "restoring")
        for path in layout.in_order([file.path for file in fetched]):
            check_contained(self.root / path, self.root)
            make_directories((self.root / path).parent)
            os.rename(scratch / path, self.root / path)


def _write(path: Path, text: str) -> None:
    """Writes a marker, completely or not at all."""
    make_directories(path.parent)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.rename(new, path)
