"""Publishes the steps of one node while the training runs, and the last ones at its end.

A step's files go to the store from its snapshot; the manifest follows when all of them are there. No node
waits for another: a set counts when each saver has its manifest there.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from ma_boot.node.checkpoints.disk import Snapshot, content_crc, free_bytes, own_directory
from ma_boot.node.checkpoints.keys import KnownSet, SetName, data_name, step_text
from ma_boot.node.checkpoints.manifest import Part, SetFile
from ma_boot.node.checkpoints.publication import Publication
from ma_boot.node.checkpoints.sets import Documents
from ma_boot.node.checkpoints.steps import RunEnd, Taken
from ma_boot.node.checkpoints.upkeep import Upkeep
from ma_boot.node.checkpoints.watch import StepWatch
from path_mapping.errors import Failure, TransferFailed
from path_mapping.localfs.names import shown
from path_mapping.localfs.source_file import FileChanged
from path_mapping.planning.plan import Copy, unquote_etag
from path_mapping.transfer.transfer import send_files

CHANGES = 3  # looks at the end, between which files may still change
LONGEST_PAUSE = 60.0  # seconds between two looks for whether what is published here counts


class _Published(NamedTuple):
    taken: Taken
    part: Part


class Publisher:
    """The steps of one node in one attempt. `take` and `send` are for a thread each.

    Its methods raise `StoreError`, `TransferFailed`, `OSError`, and `Cancelled` once `cancel` of the
    documents' store is set: what was sent already is not sent again.
    """

    def __init__(self, what: Publication, watch: StepWatch) -> None:
        self.what = what
        self.watch = watch
        self.upkeep = Upkeep(what)
        # The step, and when it was seen to count. The set that this attempt resumed from counts already: an
        # attempt that makes no newer one has not advanced.
        resumed = what.resumed
        self.newest_whole = None if resumed is None else (step_text(resumed.step), time.monotonic())
        self._newest: SetName | None = None
        self.arrived = threading.Event()  # a step has been taken
        self._is_refusal_told = False  # that this node is no saver
        self.over = False  # all processes have ended: only `finish` takes and publishes from then on
        self._published: dict[int, list[_Published]] = {}
        self._pending: list[Snapshot] = []
        self._lock = threading.Lock()  # of the pending snapshots, and of what the watch knows
        self._sent: dict[tuple[Snapshot, str], SetFile] = {}
        self._keys: dict[str, Snapshot] = {}  # by which snapshot each key of a file was written
        self._lacking: dict[int, float] = {}  # since when nodes lack steps
        self._superseding = False  # a set counts that has replaced others
        self._uncounted = False  # a part was published since the newest set that is known to count
        self._tended = time.monotonic()
        self._pause = what.rest_seconds

    def take(self, ending: RunEnd | None = None) -> None:
        """Takes what has become complete on the disk."""
        with self._lock:
            if self.over and ending is None:
                return
            taken = self.watch.take(ending)
            saves = self.what.start.node in self.what.savers(self.watch.layout)
            for snapshot in taken:
                if saves:
                    self._pending.append(snapshot)
                else:
                    snapshot.drop()
            if taken and not saves and not self._is_refusal_told:
                self._is_refusal_told = True
                self.what.say(
                    f"checkpoints: this node has files of step {taken[0].taken.step.name}, but is no saver: "
                    "its files are not published ('savers': 'all' would change that)"
                )
            if self._pending:
                self.arrived.set()

    def send(self, documents: Documents) -> bool:
        """Publishes one of the steps that were taken; False if there is none."""
        self.arrived.clear()
        snapshot = self._next(documents)
        if snapshot is None:
            return False
        try:
            self._publish(snapshot, documents)
        except FileChanged:
            with self._lock:
                self.watch.forget(snapshot.taken)
            # No manifest names these keys, so the next snapshot may write them.
            self._keys = {key: owner for key, owner in self._keys.items() if owner is not snapshot}
        self._done_with(snapshot)
        return True

    def finish(self, documents: Documents, ending: RunEnd, goes_on: bool = False) -> None:
        """Publishes all that is complete after the end.

        If the job `goes_on`, other nodes are publishing at this moment: what they lack is no fault yet.
        """
        self.over = True
        for _ in range(CHANGES):  # what somebody outside still writes to is given up
            self.take(ending)
            if not self.send(documents):
                break
            while self.send(documents):
                pass
        self.tend(documents, at_once=True, ending=ending, goes_on=goes_on)

    def tend(
        self,
        documents: Documents,
        at_once: bool = False,
        ending: RunEnd | None = None,
        goes_on: bool = False,
    ) -> None:
        """Looks now and then for what counts by now, says what does not, and removes what is too much."""
        what, now = self.what, time.monotonic()
        if now - self._tended < (self._pause if self._uncounted else what.pause) and not at_once:
            return
        self._tended, self._pause = now, min(2 * self._pause, LONGEST_PAUSE)
        savers = what.savers(self.watch.layout)
        if len(savers) > 1:
            self._check_others(documents, savers, None if goes_on else ending)
        self.upkeep.find_rivals(documents)
        versions = any(len(published) > 1 for published in self._published.values())
        if (
            self._superseding
            and self._newest
            and ending is not RunEnd.CUT
            and (versions or what.options.keep is not None)
        ):
            self.upkeep.remove(documents)
            self._superseding = False

    @property
    def last_published(self) -> str:
        """The newest step of this node that is published; empty for none."""
        return self._published[max(self._published)][-1].taken.step.name if self._published else ""

    def published(self) -> Iterator[Taken]:
        """The steps of this node that are published, with the states of their files."""
        return (one.taken for versions in self._published.values() for one in versions)

    def _next(self, documents: Documents) -> Snapshot | None:
        """What to send first: what others have sent already, so that it counts; else the newest."""
        with self._lock:
            self._give_up_old()
            pending = sorted(self._pending, key=lambda snapshot: self._name(snapshot.taken).order)
        if len(pending) < 2 or len(self.what.savers(self.watch.layout)) == 1:
            return pending[-1] if pending else None
        others = {known.name for known in documents.known_sets(self.what.attempt)}
        wanted = [snapshot for snapshot in pending if self._name(snapshot.taken) in others]
        return (wanted or pending)[-1]

    def _give_up_old(self) -> None:
        """Drops what `keep` would remove, and the oldest while the disk has no space for another step."""
        self._pending.sort(key=lambda snapshot: snapshot.taken.step)
        keep, counts = self.what.options.keep, self._newest.step if self._newest else -1
        for snapshot in list(self._pending):
            number = snapshot.taken.step.number
            if (
                keep is not None
                and number < counts
                and sum(other > number for other in self._published) >= keep
            ):
                self._drop(snapshot)
        while len(self._pending) > 1:
            oldest, newest = self._pending[0], self._pending[-1]
            if oldest.in_place or free_bytes(self.what.root) > 2 * newest.size:
                return
            self.what.say(
                f"checkpoint step {oldest.taken.step.name}: given up before it was sent, as the disk of "
                f"{self.what.root} is nearly full"
            )
            self._drop(oldest)

    def _drop(self, snapshot: Snapshot) -> None:
        """Gives a snapshot up; `_lock` is held."""
        self._pending.remove(snapshot)
        snapshot.drop()

    def _done_with(self, snapshot: Snapshot) -> None:
        with self._lock:
            self._sent = {key: file for key, file in self._sent.items() if key[0] is not snapshot}
            self._drop(snapshot)

    def _name(self, taken: Taken) -> SetName:
        return SetName(self.what.attempt, taken.step.number, taken.version, taken.by_word)

    def _publish(self, snapshot: Snapshot, documents: Documents) -> None:
        """Sends the files of a step, then their manifest; raises `FileChanged` if one has changed."""
        what, taken, begun = self.what, snapshot.taken, time.monotonic()
        if not taken.files and len(what.savers(self.watch.layout)) == 1:
            what.say(
                f"checkpoint({taken.step.name}) makes no checkpoint: {what.way.local} has no file of "
                f"this step as {' '.join(what.options.layout)!r} names it"
            )
            return
        earlier = self._published.get(taken.step.number, [])
        files = self._send(snapshot, documents, earlier)
        if earlier and not taken.by_word and _content(files) == _content(earlier[-1].part.files):
            with self._lock:
                self.watch.same_again(taken, earlier[-1].taken)
            return
        savers, layout = what.savers(self.watch.layout), self.watch.layout
        name, resumed = self._name(taken), what.resumed
        written = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        start = what.start
        part = Part(
            name, taken.step.name, start.node, start.nodes, layout.name if layout else "", files, start.world,
            savers.index(start.node), len(savers), start.ranks, resumed, start.job, start.start, written,
        )  # fmt: skip
        documents.write(what.place.part(part.key), part.document())
        self._published.setdefault(taken.step.number, []).append(_Published(taken, part))
        self._uncounted, self._pause, self._superseding = True, what.rest_seconds, True
        if resumed is not None and name.step < resumed.step:
            what.say(
                f"checkpoint step {taken.step.name} is lower than {resumed}, which was restored: the "
                "training has not resumed from it"
            )
        what.counted(taken.step.name, len(files), snapshot.size, time.monotonic() - begun)
        if len(savers) == 1 and files:
            self._counts(name)
        self.tend(documents, at_once=True)

    def _send(
        self, snapshot: Snapshot, documents: Documents, earlier: list[_Published]
    ) -> tuple[SetFile, ...]:
        """The files of a step in the store: what an earlier version has, unchanged, and the rest."""
        what, taken = self.what, snapshot.taken
        snapshot.check()
        known = {
            file.path: file
            for before in earlier
            for file in before.part.files
            if before.taken.files.get(file.path) == taken.files.get(file.path)
        }
        wanted = [path for path in taken.files if path not in known and (snapshot, path) not in self._sent]
        crcs = {path: self._crc(snapshot, path, documents) for path in wanted}
        copies = [
            Copy(
                os.fspath(snapshot.directory / path), os.fspath(snapshot.directory), what.place.bucket,
                what.place.prefix + self._free_key(snapshot, path),
                snapshot.files[path].size, mtime_ns=snapshot.files[path].mtime_ns,
            )
            for path in wanted
        ]  # fmt: skip
        moved = send_files(copies, documents.to, what.way, what.base, checked=what.way.checksum, settled=True)
        for copy in moved.done:
            path = os.path.relpath(copy.path, snapshot.directory)
            key = copy.key[len(what.place.prefix) :]
            self._sent[snapshot, path] = SetFile(path, key, copy.size, crcs[path], unquote_etag(copy.etag))
        if any(isinstance(failed.error, (FileChanged, FileNotFoundError)) for failed in moved.failed):
            raise FileChanged(f"step {taken.step.name} changed")
        if moved.failed:
            raise TransferFailed(
                [Failure(shown(failed.copy.local), failed.copy.url, failed.error) for failed in moved.failed],
                len(moved.done),
            )
        files = {**known, **{path: self._sent[snapshot, path] for path in taken.files if path not in known}}
        if snapshot.linked:
            for path in wanted:
                if self._crc(snapshot, path, documents) != crcs[path]:
                    raise FileChanged(f"{path} was written to while it was sent")
            snapshot.check()
        return tuple(files[path] for path in taken.files)

    def _free_key(self, snapshot: Snapshot, path: str) -> str:
        """The key for a file of a snapshot: no other one has written it.

        Files of several steps may have one name: `best.pt`, or a step that is saved again.
        """
        start = self.what.start
        names = (data_name(self.what.attempt, take, start.node, start.nodes, path) for take in count(1))
        return next(key for key in names if self._keys.setdefault(key, snapshot) is snapshot)

    def _crc(self, snapshot: Snapshot, path: str, documents: Documents) -> int:
        try:
            return content_crc(snapshot.directory / path, documents.to.check)
        except FileNotFoundError as error:
            raise FileChanged(f"{path} was removed") from error

    def _counts(self, name: SetName) -> None:
        """Takes note of the newest set that counts."""
        if self._newest is None or self._newest.order < name.order:
            self._newest, self._superseding = name, True
            self.newest_whole = (step_text(name.step), time.monotonic())
            self._lacking.clear()
            # What this start has set aside is needed no more.
            shutil.rmtree(own_directory(self.what.root, "aside"), ignore_errors=True)
        self._uncounted = False

    def _check_others(self, documents: Documents, savers: tuple[int, ...], ending: RunEnd | None) -> None:
        """Looks through the newest sets of this attempt down to the first that counts."""
        newer: list[KnownSet] = []
        for known in documents.known_sets(self.what.attempt):
            if known.counts:
                self._counts(known.name)
                break
            newer.append(known)
        mine = max(self._published, default=-1)
        self._uncounted = any(known.name.step <= mine for known in newer) and ending is None
        now = time.monotonic()
        for index, node in enumerate(savers):
            lacked = [known for known in newer if known.of == len(savers) and index in known.missing]
            has_many = len({known.name.step for known in lacked}) > 1
            since = self._lacking.setdefault(node, now) if has_many else now
            # When all ends well, a peer may still be publishing its part of the last step: it reports itself.
            is_own = node == self.what.start.node
            is_final = ending is not None and (has_many or is_own or ending is not RunEnd.WELL)
            if now - since >= self.what.pause or (is_final and lacked and since <= now):
                self._lacking[node] = math.inf  # it is said once
                self._tell_of_lacking(node, lacked, savers, documents)

    def _tell_of_lacking(
        self, node: int, lacked: list[KnownSet], savers: tuple[int, ...], documents: Documents
    ) -> None:
        """Says that a node keeps steps from counting, and what would change that."""
        what, newest = self.what, lacked[0]
        nodes = sorted({savers[part.index] for part in newest.parts})
        document = documents.read(what.place.part(newest.parts[0]))
        named = document.get("files", []) if isinstance(document, dict) else []
        example = f", such as {named[0]['path']}" if named else ""
        reason = ""
        if node == what.start.node:
            waits = [f"step {step.name}: {why}" for step, why in self.watch.waiting.items()]
            reason = f"; here, {waits[-1]}" if waits else "; here is no file of these steps"
        steps = ", ".join(dict.fromkeys(step_text(known.name.step) for known in lacked[:3][::-1]))
        change = "'first'" if nodes == [0] else str(nodes)
        what.say(
            f"checkpoints: step {steps} of {what.way.local}: published by node {', '.join(map(str, nodes))} "
            f"({len(named)} files{example}), not yet by node {node}, so it DOES NOT COUNT{reason}. If node "
            f"{node} saves nothing, the mapping has to say so: 'savers': {change}"
        )


def _content(files: tuple[SetFile, ...]) -> set[tuple[str, int, int]]:
    return {(file.path, file.size, file.crc64) for file in files}
