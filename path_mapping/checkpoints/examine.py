"""The sets of a place by hand: listed, compared with their objects, fetched, and removed without a job."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from path_mapping.checkpoints.restoring import Restorer
from path_mapping.checkpoints.upkeep import SPARED_SECONDS
from path_mapping.errors import Cancelled, NotFound, SetDamaged, SetUnusable
from path_mapping.localfs import crc64
from path_mapping.mapping import ObsUrl
from path_mapping.sets import (
    CheckpointSet,
    Documents,
    KnownSet,
    Leftover,
    Place,
    SetFile,
    SetName,
    Superfluous,
    finish_removals,
    leftovers,
    read_part,
    read_set,
    remove_leftovers,
    remove_set,
    step_text,
    superfluous,
)
from path_mapping.stores import FileStore
from path_mapping.transfer import Progress, RetryPolicy, listing
from path_mapping.workers import retrying


class SetRow(NamedTuple):
    """A set as people see it: `found` if it is whole, else `why` it is not.

    Of one that is not whole, `files` and `size` are not known, and `written` is empty.
    """

    known: KnownSet
    found: Optional[CheckpointSet]
    why: str

    @property
    def step(self) -> str:
        """Its step."""
        return self.found.step if self.found else step_text(self.known.name.step)

    @property
    def written(self) -> str:
        """When the last of its nodes had published its part, by that node's clock; empty if not known."""
        return max((part.written for part in self.found.parts), default="") if self.found else ""


@dataclass(frozen=True)
class SetsByHand:
    """The sets below one URL, for one user at a command line.

    Its methods raise `StoreError`, and `Cancelled` once `cancel` is set.
    """

    store: FileStore
    remote: ObsUrl
    cancel: threading.Event
    patience: RetryPolicy

    @property
    def place(self) -> Place:
        """Where the sets are."""
        return Place.of(self.remote)

    @property
    def _documents(self) -> Documents:
        return Documents(self.store, self.remote.bucket, self.cancel, self.patience)

    def rows(self) -> Iterator[SetRow]:
        """All sets, the newest first."""
        for known in self.place.known_sets(self._documents.keys(self.place.sets)):
            yield self._row(known)

    def _row(self, known: KnownSet) -> SetRow:
        why = known.why_not_whole()
        if why:
            return SetRow(known, None, why)
        try:
            return SetRow(known, read_set(self._documents, self.place, known), "")
        except SetDamaged as error:
            return SetRow(known, None, str(error))

    def chosen(self, step: Optional[str]) -> Optional[CheckpointSet]:
        """The newest whole set, or the newest one of this step; None if there is none."""
        for row in self.rows():
            if row.found is not None and step in (None, row.step):
                return row.found
        return None

    def problems(self, found: CheckpointSet, contents: bool) -> List[str]:
        """What of a set is not as its manifests say: by a listing, or by the `contents` of all objects."""
        stored: Dict[str, tuple[int, str]] = {}
        prefix = f"{self.place.prefix}{found.name.attempt}/"
        for one in listing(self.store, self.cancel, self.remote.bucket, prefix, patience=self.patience):
            stored[one.key[len(self.place.prefix) :]] = (one.size, one.etag.strip('"'))
        wrong: List[str] = []
        for file in (one for part in found.parts for one in part.files):
            if file.key not in stored:
                wrong.append(f"{file.key} is gone")
            elif stored[file.key][0] != file.size:
                wrong.append(f"{file.key} has {stored[file.key][0]} bytes, expected {file.size}")
            elif file.etag and stored[file.key][1] != file.etag:
                wrong.append(f"{file.key} was replaced")
            elif contents and self._crc(file) != file.crc64:
                wrong.append(f"{file.key} has another content")
        return wrong

    def _crc(self, file: SetFile) -> Optional[int]:
        def content() -> Optional[int]:
            crc = 0
            for piece in self.store.read(self.remote.bucket, self.place.prefix + file.key):
                if self.cancel.is_set():
                    raise Cancelled
                crc = crc64(piece, crc)
            return crc

        try:
            return retrying(content, self.cancel, self.patience)
        except NotFound:
            return None

    def fetch(
        self,
        found: CheckpointSet,
        directory: Path,
        progress: Callable[[Progress], None],
        say: Callable[[str], None],
    ) -> tuple[int, int]:
        """Puts all files of a set into a directory, verified; returns how many files and bytes it fetched.

        Raises:
            SetDamaged: an object is not what the manifest says.
            SetUnusable: its layout is not known.
            OSError: the disk failed.
        """
        checkpoint = found.layout.split(" ")
        restorer = Restorer(
            directory, checkpoint, self._documents, self.place, found.nodes, (), 0, progress, say
        )
        try:
            return restorer(found)
        except ValueError as error:
            raise SetUnusable(f"{found.name}: its layout {found.layout!r} is not known here") from error

    def superfluous(self, keep: Optional[int]) -> Superfluous:
        """What may go if the newest `keep` whole sets stay, or all, and what is in use."""
        documents = self._documents
        found = list(self.place.known_sets(documents.keys(self.place.sets)))
        return superfluous(found, keep, self._in_use())

    def leftovers(self, older_than: float) -> List[Leftover]:
        """Files that no manifest names, of all attempts that are over.

        The newest attempt may be running: its files are meant only if `older_than` says so, an age in seconds
        by this machine's clock. If it is infinite they are those of earlier attempts, older than an hour.
        """
        documents = self._documents
        found = (self.place.attempt_of(key) for key in documents.keys(self.place.attempts))
        newest = next((one[0].number for one in found if one is not None), 0)
        left = leftovers(
            documents, self.place, lambda attempt: older_than < math.inf or attempt.number < newest
        )
        age = SPARED_SECONDS if older_than == math.inf else older_than
        return [one for one in left if one.stored < time.time() - age]

    def _in_use(self) -> Set[SetName]:
        """The set that the newest attempt has restored: it may be running."""
        for key in self._documents.keys(self.place.attempts):
            if not key.endswith("/begin.json"):
                continue
            begin = self._documents.read(key)
            parts = begin.get("set") if isinstance(begin, dict) else None
            try:
                return {read_part(parts[0]).name} if parts else set()
            except (SetDamaged, KeyError, TypeError):
                return set()
        return set()

    def remove(self, sets: Sequence[KnownSet], left: Sequence[Leftover]) -> None:
        """Removes sets and leftovers, and what an interrupted removal has left."""
        finish_removals(self._documents, self.place)
        for known in sets:
            remove_set(self._documents, self.place, known)
        remove_leftovers(self._documents, left)
