"""Publishes the steps of one node while the training runs, and the last ones at its end.

A step's files go to the store as they become whole; the manifest follows when all of them are there and still
unchanged on the disk. No node waits for another: a set counts when each node has its manifest there.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import AbstractSet, BinaryIO, Dict, List, Optional, Tuple

from path_mapping.checkpoints.local_files import content_crc, local_files
from path_mapping.checkpoints.publication import Publication, Published
from path_mapping.checkpoints.step_watch import LocalStep, StepWatch
from path_mapping.checkpoints.upkeep import Upkeep
from path_mapping.errors import Cancelled, Failure, TransferFailed
from path_mapping.layouts import Layout, TrainingStep, damage
from path_mapping.localfs import FileChanged, FileState, shown
from path_mapping.mapping import selected
from path_mapping.planning import Copy, unquoted
from path_mapping.sets import (
    Documents,
    KnownSet,
    Part,
    SetFile,
    SetName,
    data_name,
    step_text,
)
from path_mapping.transfer import open_for_writing, send_files

STRANGE_SECONDS = 600.0  # without a file of any step, until somebody is told
IDLE_LOOKS = 12  # settle times for which others have a set of which this node has nothing, until it is idle


class Publisher:
    """The published steps of one node in one attempt; used by one thread at a time.

    Its methods raise `StoreError`, `TransferFailed`, `OSError`, and `Cancelled` once the documents' `cancel`
    is set: what was sent already is not sent again.
    """

    def __init__(self, what: Publication, watch: StepWatch) -> None:
        self.what = what
        self.watch = watch
        self.upkeep = Upkeep(what)
        self.published: Dict[int, Published] = {}
        self.newest_whole: Optional[Tuple[str, float]] = None  # the step, and when it was seen to be whole
        self.idle = False
        self._sent: Dict[str, Tuple[FileState, SetFile]] = {}
        self._sets: List[KnownSet] = []
        self._others_since = 0.0
        self._listed = 0.0
        self._strange = False
        self._began = time.monotonic()
        self._chosen = selected(what.way.include, what.way.exclude)

    def look(self, documents: Documents, said: AbstractSet[int] = frozenset()) -> None:
        """Publishes what has become complete, and withdraws what has changed since it was published."""
        files, now = self._files(), time.monotonic()
        if now - self._began >= STRANGE_SECONDS:
            self._tell_of_strangers(files)
        self.watch.look(files, now)
        self._withdraw(files, documents)
        complete, _ = self.watch.complete(files, said)
        todo = [
            local for local in complete if local.step.number not in self.published and not self._cut(local)
        ]
        todo += self._said_without_files(files, said, documents)
        written = open_for_writing([self.what.root]) if todo else set()
        for local in todo:
            if not any(str(self.what.root / path) in written for path in local.files):
                self.publish(local, documents)
        self._look_at_others(files, documents, now)
        self.upkeep.look_around(documents, now)

    def finish(
        self, documents: Documents, said: AbstractSet[int], ended_well: bool, hurry: bool
    ) -> Dict[str, str]:
        """Publishes what is left after the training's end; returns why other steps are not complete.

        In a `hurry` the newest step goes first that other nodes have published already: it can still become
        whole.
        """
        files, nodes = self._files(), self.what.nodes
        self._tell_of_strangers(files)
        self._withdraw(files, documents)
        complete, waiting = self.watch.complete(files, said, ended_well)
        new = [local for local in complete if local.step.number not in self.published]
        waiting.update((local.step, cut) for local in new for cut in (self._cut(local),) if cut)
        todo = [local for local in new if local.step not in waiting] + self._said_without_files(
            files, said, documents
        )
        if hurry and todo:
            others = {one.name.step for one in self._listing(documents)} if nodes > 1 else set()
            todo.sort(key=lambda local: (local.step.number in others, local.step.number), reverse=True)
        for local in todo:
            self.publish(local, documents)
        if nodes > 1:
            if ended_well and not self.published and not self.idle:
                self._say_idle(documents)
            self._count(documents, prune=not hurry)
        return {step.name: why for step, why in waiting.items() if step.number not in self.published}

    def publish(self, local: LocalStep, documents: Documents) -> None:
        """Sends the files of a step, then their manifest; nothing if a file has changed meanwhile."""
        what, begun = self.what, time.monotonic()
        name = SetName(what.attempt, local.step.number)
        try:
            files = self._send(local, documents)
        except FileChanged:
            return  # the next look sees it
        now = self.watch.steps(self._files()).get(local.step)
        if (now.files if now is not None else {}) != local.files:
            return
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        part = Part(
            name, local.step.name, what.node, what.nodes, local.layout.name, files, what.world, what.ranks,
            what.resumed, written,
        )  # fmt: skip
        documents.write(what.place.part(name, what.node, what.nodes), part.document())
        self.published[local.step.number] = Published(local, part)
        self.watch.published(local)
        if what.resumed is not None and name.step < what.resumed.step:
            what.told(
                f"checkpoint step {local.step.name} is lower than that of {what.resumed}, which was "
                "restored: the training has not gone on from it"
            )
        size = sum(one.size for one in files)
        what.counted(local.step.name, len(files), size, time.monotonic() - begun)
        self._count(documents)

    def _tell_of_strangers(self, files: Dict[str, FileState]) -> None:
        """Says once that there are files, and none of them belongs to a step."""
        if not self._strange and files and not self.published and self.watch.is_strange(files):
            self._strange = True
            known = " ".join(self.watch.checkpoint)
            self.what.told(
                f"checkpoints: none of the {len(files)} files in {self.what.root} is one of a checkpoint as "
                f"{known!r} has them: they are uploaded one by one; name another layout, or a pattern"
            )

    def _cut(self, local: LocalStep) -> str:
        """Why a file is not whole, by its structure: its writer pauses, or has died. Empty if none."""
        for path, state in local.files.items():
            try:
                with open(self.what.root / path, "rb") as file:
                    found = damage(path, state.size, partial(_read, file))
            except OSError as error:
                found = f"cannot be read: {error.strerror}"
            if found:
                return f"{path}: {found}"
        return ""

    def _said_without_files(
        self, files: Dict[str, FileState], said: AbstractSet[int], documents: Documents
    ) -> List[LocalStep]:
        """Steps that the training has said are complete, of which this node has no files but others have.

        Only where another node's part is there already, so that the first one always has files: a set of
        none would be the newest, and a start would go on from nothing.
        """
        here = {step.number for step in self.watch.steps(files)}
        missing = said - here - set(self.published)
        if not missing or self.what.nodes == 1:
            return []
        listed = [one.name for one in self._listing(documents)]
        theirs = {name.step for name in listed if name.attempt == self.what.attempt}
        numbers = sorted(missing & theirs)
        return [LocalStep(TrainingStep(number, step_text(number)), Layout("", ()), {}) for number in numbers]

    def _files(self) -> Dict[str, FileState]:
        found = local_files(self.what.root)
        return {path: state for path, state in found.items() if self._chosen is None or self._chosen(path)}

    def _send(self, local: LocalStep, documents: Documents) -> Tuple[SetFile, ...]:
        """The files of a step in the store; raises `FileChanged` if they are no longer as they were."""
        what = self.what
        crcs: Dict[str, int] = {}
        copies: List[Copy] = []
        for path, state in local.files.items():
            if self._sent.get(path, (None,))[0] == state:
                continue
            try:
                crcs[path] = content_crc(what.root / path, lambda: _check(documents))
            except FileNotFoundError as error:
                raise FileChanged(f"{path} was removed") from error
            key = what.place.prefix + data_name(what.attempt, what.node, what.nodes, path)
            copies.append(
                Copy(
                    os.fspath(what.root / path), os.fspath(what.root), what.place.bucket, key, state.size,
                    mtime_ns=state.mtime_ns,
                )
            )  # fmt: skip
        moved = send_files(
            copies, documents.store, what.way, what.base, documents.cancel,
            checked=what.way.checksum, settled=True, patience=documents.patience,
        )  # fmt: skip
        for copy in moved.done:
            path = os.path.relpath(copy.path, what.root)
            key = copy.key[len(what.place.prefix) :]
            sent = SetFile(path, key, copy.size, crcs[path], unquoted(copy.etag))
            self._sent[path] = (local.files[path], sent)
        changed = [one for one in moved.failed if isinstance(one.error, (FileChanged, FileNotFoundError))]
        if changed:
            raise FileChanged(f"{changed[0].copy.path} changed")
        if moved.failed:
            raise TransferFailed(
                [Failure(shown(one.copy.local), one.copy.url, one.error) for one in moved.failed],
                len(moved.done),
            )
        return tuple(self._sent[path][1] for path in local.files)

    def _withdraw(self, files: Dict[str, FileState], documents: Documents) -> None:
        """Takes back the manifest of a step that was written to since: it was not complete."""
        steps = self.watch.steps(files)
        for number, (local, part) in list(self.published.items()):
            now = steps.get(local.step)
            if now is not None and any(local.files.get(path) != state for path, state in now.files.items()):
                self.what.told(
                    f"checkpoint step {local.step.name} was written to after it was published: withdrawn"
                )
                documents.delete(self.what.place.part(part.name, part.node, part.nodes))
                del self.published[number]
        for path in set(self._sent) - set(files):
            del self._sent[path]

    def _look_at_others(self, files: Dict[str, FileState], documents: Documents, now: float) -> None:
        """A node that saves nothing says so once, when others have sets that it has nothing of."""
        what, pause = self.what, self.watch.settle * IDLE_LOOKS
        if what.nodes == 1 or self.published or self.idle or self.watch.steps(files):
            return
        if now - self._listed < pause / 2:
            return
        self._listed = now
        theirs = {one.name.step for one in self._listing(documents) if one.name.attempt == what.attempt}
        if not theirs:
            self._others_since = now
        layout = self.watch.layout(files)
        by_rank = layout is not None and layout.by_rank
        if len(theirs) > 1 or (theirs and not by_rank and now - self._others_since >= pause):
            self._say_idle(documents)
            self._count(documents)

    def _say_idle(self, documents: Documents) -> None:
        what = self.what
        documents.write(what.place.idle(what.attempt, what.node, what.nodes), {"node": what.node})
        self.idle = True

    def _listing(self, documents: Documents) -> List[KnownSet]:
        self._sets = list(self.what.place.known_sets(documents.keys(self.what.place.sets)))
        return self._sets

    def _count(self, documents: Documents, prune: bool = True) -> None:
        """Looks for what is whole now: notes it, sends the markers of this node, removes what is too much."""
        what = self.what
        removes = prune and what.node == 0 and what.way.keep is not None
        if what.nodes == 1 and not removes:
            whole = sorted(self.published)
        else:
            found = self._listing(documents)
            whole = sorted(one.name.step for one in found if one.nodes and one.name.attempt == what.attempt)
        mine = [number for number in whole if number in self.published]
        if not whole:
            return
        name = step_text(whole[-1])
        if self.newest_whole is None or self.newest_whole[0] != name:
            self.newest_whole = (name, time.monotonic())
            if mine:
                self._send_markers(self.published[mine[-1]].local, documents)
        if removes:
            self.upkeep.remove(self._sets, documents)

    def _send_markers(self, local: LocalStep, documents: Documents) -> None:
        """Writes the markers of a set that counts beside its files, for people who fetch the tree by hand."""
        what = self.what
        for path, text in local.layout.marker_files(local.files).items():
            key = what.place.prefix + data_name(what.attempt, what.node, what.nodes, path)
            documents.write_bytes(key, text.encode("utf-8"))


def _read(file: BinaryIO, offset: int, length: int) -> bytes:
    return os.pread(file.fileno(), length, offset)


def _check(documents: Documents) -> None:
    if documents.cancel.is_set():
        raise Cancelled
