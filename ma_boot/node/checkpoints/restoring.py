"""Restores a checkpoint: keeps files that are here, downloads and verifies the rest, moves them in.

DIR/.ma_boot/restoring/...   downloads, verified before any file of DIR is touched
.DIR.aside/...               files of other steps: loaders take the highest number, or the newest file
DIR/...                      the checkpoint, then the framework's pointer to it
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
from ma_boot.node.checkpoints.layouts.layout import Layout
from ma_boot.node.checkpoints.layouts.recognition import read_layout, recognise
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.manifest import Checkpoint, CheckpointFile
from ma_boot.node.checkpoints.steps import Files
from ma_boot.wording import Message, ProgressLine
from path_mapping.errors import Corrupted, NoSpace, NotFound, Replaced, printable
from path_mapping.localfs.atomic_file import check_contained, make_directories
from path_mapping.planning.local_tree import SpaceNeed, free_space, local_entry, shortages
from path_mapping.planning.plan import Copy
from path_mapping.transfer.scheduler import Progress
from path_mapping.transfer.transfer import FailedCopy, fetch_files
from path_mapping.workers.retry import RetriedStore, RetryPolicy

# Seconds for which a download is retried before the object is checked for damage, which retries do not
# repair.
AT_ONCE = 1.0


@dataclass(frozen=True)
class Restorer:
    """Restores checkpoints into the directory `root` for the node of these `ranks`.

    `checkpoint` is the layout as a mapping names it, for files of earlier starts; `world_size` is the number
    of ranks of the job, 0 if it does not matter; `node` is this node's number.
    """

    root: Path
    checkpoint: Sequence[str]
    documents: Documents
    node: int
    ranks: Sequence[int]
    world_size: int
    progress: Callable[[Progress], None]
    say: Callable[[str], None]

    def restore(self, chosen: Checkpoint | None) -> tuple[int, int]:
        """Puts this checkpoint in place, and moves any other aside; returns the files and bytes downloaded.

        Raises:
            ConfigError: another number of ranks has written the checkpoint, and its layout does not allow
            that. CheckpointDamaged: an object differs from the manifest. StoreError: the store failed.
            NoSpace: the disk is too small; nothing was downloaded. UnsafeTarget: a link in the directory
            leads out of it. OSError: the disk failed. Cancelled: the documents' `cancel` is set.
        """
        local = tree(self.root).files
        layout = self._layout(chosen, local)
        if layout is None:
            return 0, 0
        wanted = self._wanted(chosen, layout) if chosen is not None else ()
        kept = {file.path for file in wanted if file.path in local and self._is(self.root / file.path, file)}
        downloaded = self._fetch([file for file in wanted if file.path not in kept])
        self._set_aside(layout, [path for path in local if path not in kept])
        self._move_in(layout, [file for file in wanted if file.path not in kept])
        for path, text in layout.marker_files([file.path for file in wanted]).items():
            check_contained(self.root / path, self.root)
            _write(self.root / path, text)
        shutil.rmtree(inside(self.root, "restoring"), ignore_errors=True)
        with suppress(OSError):  # not empty
            os.rmdir(inside(self.root, "restoring").parent)
        return downloaded

    def _layout(self, chosen: Checkpoint | None, local: Files) -> Layout | None:
        """Returns the layout of the checkpoint, or else of the files on the disk; None if they show none."""
        if chosen is None:
            return recognise(self.checkpoint, seen_at_once(local)).layout
        try:
            return read_layout(chosen.layout)
        except ValueError as error:
            raise ConfigError(
                f"checkpoints: {chosen.name} has the layout {chosen.layout!r}, which this version of "
                "ma_boot does not know: use the version that wrote it"
            ) from error

    def _wanted(self, chosen: Checkpoint, layout: Layout) -> tuple[CheckpointFile, ...]:
        """Returns the files that this node needs; of a path that several nodes have, its own."""
        files = {file.path: file for file in chosen.files_of(None)}
        if self.world_size and chosen.world_size != self.world_size and not layout.reshards(list(files)):
            raise ConfigError(
                Message.of(
                    "checkpoints: {} in {} was written by {} ranks on {} nodes, this job has {}, and another "
                    "number cannot load {} checkpoints: start {} ranks, or convert the checkpoint, or leave "
                    "out 'restore'",
                    chosen.name,
                    self.documents.place,
                    chosen.world_size,
                    chosen.nodes,
                    self.world_size,
                    layout.name,
                    chosen.world_size,
                )
            )
        files.update((file.path, file) for file in chosen.files_of(self.node))
        needed = layout.needed(list(files), self.ranks) if self.ranks else list(files)
        return tuple(files[path] for path in needed if not layout.is_pointer(path))

    def _is(self, path: Path, file: CheckpointFile) -> bool:
        """Returns whether a file has the size and checksum of the manifest."""
        local = local_entry(path)
        if local is None or local.file_size != file.size:
            return False
        try:
            return content_crc(path, self.documents.to.check) == file.crc64
        except OSError:
            return False

    def _fetch(self, wanted: Sequence[CheckpointFile]) -> tuple[int, int]:
        """Downloads and verifies files, beside their places; reuses downloads of an interrupted run."""
        scratch, place = inside(self.root, "restoring"), self.documents.place
        # A store without requests, a directory, has no ETags that could be compared at the download.
        has_etags = self.documents.to.store.signer is not None
        copies = []
        for file in wanted:
            path, key = scratch / file.path, place.prefix + file.key
            if not self._is(path, file):
                etag = f'"{file.etag}"' if file.etag and has_etags else ""
                copies.append(Copy(str(path), str(scratch), place.bucket, key=key, size=file.size, etag=etag))
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
        """Downloads files; looks for damage after a second of retries, and only then retries patiently."""
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
        """Raises `CheckpointDamaged` if the object is damaged, and the error is not one of the network."""
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
        """Moves files of other steps out of the way of loaders, and deletes pointers."""
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
            files = f"{len(old)} files of step {named}, which do not belong to the restored checkpoint"
            self.say(ProgressLine(f"moved aside to {aside}: {files}"))

    def _move_in(self, layout: Layout, fetched: Sequence[CheckpointFile]) -> None:
        """Moves the downloaded files into their places, data before metadata."""
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
