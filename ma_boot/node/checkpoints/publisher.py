"""Publishes the steps of one node while the training runs, and the last ones at its end.

Two threads share a publisher; the lock is for the queue and the watch:

    watch thread     take: look at the disk -> complete steps -> snapshots -> queue
    upload thread    send: queue -> files to OBS -> manifest     tend: listings, notices, removals

The files of a step are uploaded from its snapshot; the manifest follows when all of them are in OBS. No node
waits for another: a checkpoint is complete when each saver's manifest is there.
"""

from __future__ import annotations

import shutil
import threading
import time

from ma_boot.node.checkpoints.attempts import BegunAttempt
from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.disk import Snapshot, own_directory
from ma_boot.node.checkpoints.part_upload import PartUploads
from ma_boot.node.checkpoints.publishing import (
    CompleteStep,
    MissingParts,
    PublishedStep,
    Publishing,
    has_same_content,
)
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.keys import CheckpointName, step_text
from ma_boot.node.checkpoints.records.manifest import CheckpointFile, Part
from ma_boot.node.checkpoints.snapshot_queue import SnapshotQueue
from ma_boot.node.checkpoints.steps import RunEnd, TakenStep
from ma_boot.node.checkpoints.upkeep import Upkeep
from ma_boot.node.checkpoints.watch import StepWatch
from path_mapping.localfs.source_file import FileChanged

# Rounds at the end. Files may still change between two of them; a process that survives is not waited for.
LAST_ROUNDS = 3


class Publisher:
    """The steps of one node in one attempt.

    Its methods raise `StoreError`, `TransferFailed`, `OSError`, and `Cancelled` once `cancel` of the
    documents' store is set; the next call continues the upload.
    """

    def __init__(self, target: CheckpointRoute, begun: BegunAttempt, watch: StepWatch) -> None:
        self.target = target
        self.attempt = begun.attempt
        self.resumed = begun.checkpoint.name if begun.checkpoint else None
        self.watch = watch
        self.upkeep = Upkeep(target, self.attempt, self.resumed)
        self.queue = SnapshotQueue(target.root, target.say)
        # All processes have ended: only `finish` takes and publishes from then on.
        self.has_ended = False
        self._state = Publishing.begin(self.resumed, target.rest_seconds, time.monotonic())
        self._uploads = PartUploads(target, self.attempt)
        self._lock = threading.Lock()
        self._has_said_no_saver = False

    @property
    def saves(self) -> bool:
        """True if this node is a saver."""
        return self.target.member.node in self._savers

    @property
    def last_published(self) -> str:
        """The newest step of this node that is published; empty for none."""
        return self._state.last_published

    @property
    def newest_complete(self) -> CompleteStep | None:
        """The newest step that is known to be complete; None for none."""
        return self._state.complete_step

    @property
    def published(self) -> list[TakenStep]:
        """The steps of this node that are published."""
        return list(self._state.taken_steps())

    @property
    def _savers(self) -> tuple[int, ...]:
        return self.target.savers(self.watch.layout)

    def take(self, ending: RunEnd | None = None) -> None:
        """Takes the steps that have become complete on the disk."""
        with self._lock:
            if self.has_ended and ending is None:
                return
            taken = self.watch.take(ending)
            if self.saves:
                self.queue.add(taken)
                return
            for snapshot in taken:
                snapshot.drop()
            if taken and not self._has_said_no_saver:
                self._has_said_no_saver = True
                self.target.say(
                    f"checkpoints: this node has files of step {taken[0].taken.step.name}, but is not a "
                    "saver: its files are not published ('savers': 'all' would change that)"
                )

    def send(self, documents: Documents) -> bool:
        """Publishes one of the steps that were taken; returns False if there is none."""
        self.queue.arrived.clear()
        snapshot = self._next(documents)
        if snapshot is None:
            return False
        try:
            self._publish(snapshot, documents)
        except FileChanged:
            with self._lock:
                self.watch.forget(snapshot.taken)
            self._uploads.release_keys(snapshot)
        self._uploads.forget(snapshot)
        with self._lock:
            self.queue.remove(snapshot)
        return True

    def finish(self, documents: Documents, ending: RunEnd, goes_on: bool = False) -> None:
        """Publishes all that is complete after the end.

        If the job `goes_on`, peers are publishing at this moment: their missing parts are not reported yet.
        """
        self.has_ended = True
        for _ in range(LAST_ROUNDS):
            self.take(ending)
            if not self.send(documents):
                break
            while self.send(documents):
                pass
        self._tend_now(documents, ending, goes_on)

    def tend(self, documents: Documents) -> None:
        """Looks, now and then, for complete checkpoints; reports incomplete, removes superseded ones."""
        if self._state.is_look_due(self.target.listing_pause, time.monotonic()):
            self._tend_now(documents)

    def _tend_now(self, documents: Documents, ending: RunEnd | None = None, goes_on: bool = False) -> None:
        self._state = self._state.with_look(time.monotonic())
        if len(self._savers) > 1:
            self._check_peers(documents, None if goes_on else ending)
        self.upkeep.find_rivals(documents)
        if self._state.needs_removal(self.target.options.keep, ending):
            self.upkeep.remove(documents)
            self._state = self._state.without_superseded()

    def _next(self, documents: Documents) -> Snapshot | None:
        """Returns the step to upload first: one that lacks only this node's part, or else the newest."""
        keep = self.target.options.keep
        with self._lock:
            self.queue.give_up(lambda number: self._state.has_replaced(number, keep))
            waiting = sorted(self.queue.waiting(), key=lambda snapshot: self._name(snapshot.taken).order)
        if len(waiting) < 2 or len(self._savers) == 1:
            return waiting[-1] if waiting else None
        listed = {checkpoint.name for checkpoint in documents.list_checkpoints(self.attempt)}
        wanted = [snapshot for snapshot in waiting if self._name(snapshot.taken) in listed]
        return (wanted or waiting)[-1]

    def _name(self, taken: TakenStep) -> CheckpointName:
        return CheckpointName(self.attempt, taken.step.number, taken.version, taken.is_explicit)

    def _publish(self, snapshot: Snapshot, documents: Documents) -> None:
        """Uploads the files of a step, then their manifest; raises `FileChanged` if one has changed."""
        target, taken, began = self.target, snapshot.taken, time.monotonic()
        if not taken.files and len(self._savers) == 1:
            target.say(
                f"checkpoint({taken.step.name}) makes no checkpoint: {target.route.local} has no file of "
                f"this step as {' '.join(target.options.layout)!r} names it"
            )
            return
        earlier = self._state.versions(taken.step.number)
        files = self._uploads.upload(snapshot, documents, earlier)
        if earlier and not taken.is_explicit and has_same_content(files, earlier[-1].part.files):
            with self._lock:
                self.watch.note_same_content(taken, earlier[-1].taken)
            return
        part = self._part(taken, files)
        documents.write(target.place.part(part.key), part.document())
        self._state = self._state.with_part(PublishedStep(taken, part), target.rest_seconds)
        if self.resumed is not None and part.name.step < self.resumed.step:
            target.say(
                f"checkpoint step {taken.step.name} is lower than {self.resumed}, which was restored: the "
                "training has not resumed from it"
            )
        target.report(taken.step.name, len(files), snapshot.size, time.monotonic() - began)
        if len(self._savers) == 1 and files:
            self._update(self._state.with_complete(part.name, time.monotonic()))
        self._tend_now(documents)

    def _part(self, taken: TakenStep, files: tuple[CheckpointFile, ...]) -> Part:
        member, layout = self.target.member, self.watch.layout
        return Part(
            name=self._name(taken),
            step=taken.step.name,
            member=member,
            layout=layout.name if layout else "",
            files=files,
            saver=self._savers.index(member.node),
            of=len(self._savers),
            resumed_from=self.resumed,
            written=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )

    def _update(self, state: Publishing) -> None:
        """Takes over a state, and removes the steps set aside at the start once a newer one is complete."""
        if state.newest != self._state.newest:
            shutil.rmtree(own_directory(self.target.root, "aside"), ignore_errors=True)
        self._state = state

    def _check_peers(self, documents: Documents, ending: RunEnd | None) -> None:
        """Looks for complete checkpoints of this attempt, and reports savers that keep them incomplete."""
        savers, member = self._savers, self.target.member
        listed, now = documents.list_checkpoints(self.attempt), time.monotonic()
        result = self._state.with_listing(listed, now, has_ended=ending is not None)
        missing = result.missing_parts(savers)
        state, due = result.state.with_missing(
            missing, self.target.listing_pause, own=member.node, ending=ending, now=now
        )
        self._update(state)
        for parts in due:
            self._report_missing(parts, savers, documents)

    def _report_missing(self, parts: MissingParts, savers: tuple[int, ...], documents: Documents) -> None:
        """Names the steps that a node keeps incomplete, and the option that would change it."""
        target, node, newest = self.target, parts.node, parts.checkpoints[0]
        nodes = sorted({savers[part.index] for part in newest.parts})
        document = documents.read(target.place.part(newest.parts[0]))
        files = document.get("files", []) if isinstance(document, dict) else []
        example = f", such as {files[0]['path']}" if files else ""
        reason = ""
        if node == target.member.node:
            waits = [f"step {step.name}: {why}" for step, why in self.watch.decision.waiting.items()]
            reason = f"; here, {waits[-1]}" if waits else "; this node has no file of these steps"
        oldest_first = parts.checkpoints[:3][::-1]
        steps = ", ".join(dict.fromkeys(step_text(checkpoint.name.step) for checkpoint in oldest_first))
        option = "'first'" if nodes == [0] else str(nodes)
        target.say(
            f"checkpoints: INCOMPLETE: step {steps} of {target.route.local}: published by node "
            f"{', '.join(map(str, nodes))} ({len(files)} files{example}), but not yet by node {node}{reason}"
            f". If node {node} saves nothing, add to the mapping: 'savers': {option}"
        )
