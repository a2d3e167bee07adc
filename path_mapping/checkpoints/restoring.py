"""Puts a set in place on this node: what is here is kept, the rest is fetched, verified, then moved in.

Nothing of another set stays where a loader would find it: some take the highest number, others the newest
time.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, Sequence, Tuple

from path_mapping.checkpoints.local_files import aside_of, content_crc, local_files, scratch_of
from path_mapping.errors import Cancelled, Corrupted, NoSpace, NotFound, Replaced, SetDamaged, SetUnusable
from path_mapping.layouts import Layout, layout_of
from path_mapping.localfs import contained, make_directories, printable
from path_mapping.planning import Copy, SpaceNeed, free_space, look, shortages
from path_mapping.sets import CheckpointSet, Documents, Place, SetFile
from path_mapping.transfer import FailedCopy, Progress, fetch_files


@dataclass(frozen=True)
class Restorer:
    """Restores sets into the directory `root` for the node of these `ranks`.

    `checkpoint` is the layout as a route names it; `world` the number of ranks of the job, 0 if it does not
    matter; `node` is this node's number.
    """

    root: Path
    checkpoint: Sequence[str]
    documents: Documents
    place: Place
    node: int
    ranks: Sequence[int]
    world: int
    progress: Callable[[Progress], None]
    say: Callable[[str], None]

    def __call__(self, chosen: Optional[CheckpointSet]) -> Tuple[int, int]:
        """Puts this set in place, and moves aside any other one; returns the files and bytes fetched.

        Raises:
            SetUnusable: the set was written by another number of ranks, and its layout does not allow that.
            SetDamaged: an object is not what the manifest says.
            StoreError: the store failed.
            NoSpace: the disk is too small; nothing was fetched.
            UnsafeTarget: a link in the directory leads out of it.
            OSError: the disk failed.
            Cancelled: the documents' `cancel` is set.
        """
        found = local_files(self.root)
        layout = layout_of(self.checkpoint, [one.path for one in chosen.files_of(None)] if chosen else found)
        if layout is None:
            if chosen is not None and chosen.files:
                raise SetUnusable(
                    f"{chosen.name}: 'checkpoint': 'auto' does not know these files; name a layout"
                )
            return 0, 0
        wanted = self._wanted(chosen, layout) if chosen is not None else ()
        kept = {one.path for one in wanted if one.path in found and self._is(self.root / one.path, one)}
        fetched = self._fetch([one for one in wanted if one.path not in kept])
        self._set_aside(layout, [path for path in found if path not in kept])
        self._settle(layout, [one for one in wanted if one.path not in kept])
        for path, text in layout.marker_files([one.path for one in wanted]).items():
            contained(self.root / path, self.root)
            _write(self.root / path, text)
        shutil.rmtree(scratch_of(self.root, "restoring"), ignore_errors=True)
        return fetched

    def _wanted(self, chosen: CheckpointSet, layout: Layout) -> Tuple[SetFile, ...]:
        """The files of the set that this node needs; of a path that several nodes have, its own."""
        files = {one.path: one for one in chosen.files_of(None)}
        if self.world and chosen.world != self.world and not layout.reshards(list(files)):
            raise SetUnusable(
                f"{chosen.name} in {self.place} was written by {chosen.world} ranks on {chosen.nodes} nodes, "
                f"this job has {self.world}, and another number cannot load {layout.name} checkpoints: start "
                f"{chosen.world} ranks, or convert the set, or leave out 'restore'"
            )
        if self.node < chosen.nodes:
            files.update((one.path, one) for one in chosen.files_of(self.node))
        needed = layout.needed(list(files), self.ranks) if self.ranks else list(files)
        return tuple(files[path] for path in needed if not layout.is_pointer(path))

    def _is(self, path: Path, one: SetFile) -> bool:
        """Whether a file is what the manifest says."""
        local = look(path)
        if local is None or local.file_size != one.size:
            return False
        try:
            return content_crc(path, self._check) == one.crc64
        except OSError:
            return False

    def _check(self) -> None:
        if self.documents.cancel.is_set():
            raise Cancelled

    def _fetch(self, wanted: Sequence[SetFile]) -> Tuple[int, int]:
        """Downloads and verifies files, beside their places; what an earlier run has fetched is used."""
        scratch, store = scratch_of(self.root, "restoring"), self.documents.store
        by_requests = store.signer is not None
        copies = {}
        for one in wanted:
            path = scratch / one.path
            if not self._is(path, one):
                etag = f'"{one.etag}"' if one.etag and by_requests else ""
                copies[str(path)] = Copy(
                    str(path), str(scratch), self.place.bucket, self.place.prefix + one.key, one.size, etag
                )
        if not copies:
            return 0, 0
        need = SpaceNeed()
        for copy in copies.values():
            need = need.plus(copy.size, None)
        short = shortages({self.root: need}, {self.root: free_space(self.root)})
        if short:
            raise NoSpace(short)
        make_directories(scratch)
        moved = fetch_files(
            copies.values(), store, self.documents.cancel, self.progress, self.documents.patience
        )
        for failed in moved.failed:
            self._judge(failed)
        for one in wanted:
            path = scratch / one.path
            if str(path) in copies and not self._is(path, one):
                path.unlink()
                raise SetDamaged(f"{self._url(one.key)}: its content is not the one that was published")
        return len(copies), sum(copy.size for copy in copies.values())

    def _judge(self, failed: FailedCopy) -> None:
        """Raises `SetDamaged` if the object is to blame, else what has failed."""
        copy, error = failed
        url = printable(copy.url)
        if isinstance(error, NotFound):
            raise SetDamaged(f"{url} is gone") from error
        if isinstance(error, Replaced):
            raise SetDamaged(f"{url} was replaced") from error
        if isinstance(error, Corrupted):
            raise SetDamaged(str(error)) from error
        found = self.documents.store.find(copy.bucket, copy.key)
        if found is None:
            raise SetDamaged(f"{url} is gone") from error
        if found.size != copy.size:
            raise SetDamaged(f"{url} has {found.size} bytes, expected {copy.size}") from error
        if copy.etag and found.version.strip('"') != copy.etag.strip('"'):
            raise SetDamaged(f"{url} was replaced") from error
        raise error

    def _url(self, key: str) -> str:
        return printable(f"{self.place}{key}")

    def _set_aside(self, layout: Layout, paths: Sequence[str]) -> None:
        """Moves files of sets out of the way of loaders, and deletes pointers and what was aside before."""
        for path in filter(layout.is_pointer, paths):
            os.unlink(self.root / path)
        old = [path for path in paths if layout.step_of(path) is not None and not layout.is_pointer(path)]
        if not old:
            return
        aside = aside_of(self.root)
        shutil.rmtree(aside, ignore_errors=True)
        for path in old:
            (aside / path).parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.root / path, aside / path)
            with suppress(OSError):  # not empty
                for parent in Path(path).parents[:-1]:
                    (self.root / parent).rmdir()
        steps = sorted(layout.steps(old))
        if steps:
            named = ", ".join(step.name for step in steps[-3:])
            self.say(
                f"moved aside to {aside}: {len(old)} files of step {named}, which are not of the set restored"
            )

    def _settle(self, layout: Layout, fetched: Sequence[SetFile]) -> None:
        """Moves the fetched files into their places, what describes others last."""
        scratch = scratch_of(self.root, "restoring")
        for path in layout.in_order([one.path for one in fetched]):
            contained(self.root / path, self.root)
            make_directories((self.root / path).parent)
            os.rename(scratch / path, self.root / path)


def _write(path: Path, text: str) -> None:
    """Writes a marker, completely or not at all."""
    make_directories(path.parent)
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.rename(new, path)
