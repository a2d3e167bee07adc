"""Restores a checkpoint: keeps files that are here, downloads and verifies the rest, moves them in.

DIR/.ma_boot/restoring/...   downloads, verified before any file of DIR is touched
.DIR.aside/...               files of other steps: loaders take the highest number, or the newest file
DIR/...                      the checkpoint, then the framework's pointer to it
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from ma_boot.errors import ConfigError
from ma_boot.node.checkpoints.disk import own_directory, seen_at_once, tree
from ma_boot.node.checkpoints.downloads.verified_files import VerifiedFiles
from ma_boot.node.checkpoints.layouts.layout import Layout
from ma_boot.node.checkpoints.layouts.recognition import read_layout, recognise
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.manifest import Checkpoint, CheckpointFile
from ma_boot.node.checkpoints.steps import Files
from ma_boot.wording import Message, ProgressLine
from path_mapping.localfs.atomic_file import check_contained, make_directories
from path_mapping.transfer.scheduler import Progress


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
        files = VerifiedFiles(self.root, self.documents, self.progress)
        kept = {file.path for file in wanted if file.path in local and files.has(file)}
        missing = [file for file in wanted if file.path not in kept]
        downloaded = files.fetch(missing)
        self._set_aside(layout, [path for path in local if path not in kept])
        # Data before metadata.
        files.move_in(layout.in_order([file.path for file in missing]))
        for path, text in layout.marker_files([file.path for file in wanted]).items():
            check_contained(self.root / path, self.root)
            _write(self.root / path, text)
        files.close()
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


def _write(path: Path, text: str) -> None:
    """Writes a marker, completely or not at all."""
    make_directories(path.parent)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.rename(new, path)
