"""Upkeep of an output's place in OBS: detects other starts, and removes superseded checkpoints.

Two starts may publish to one place at the same time: a job that was given up may still run. Neither can lock
the
place. The earlier one sees the later one's attempt in a listing and reports itself there:

    earlier attempt (node 0)                               later attempt (node 0)
    lists attempts now and then
    sees begin.json of the later one
    alive-EARLIER.json in the later one's directory -----> sees it in its own directory
    removes nothing of others                              removes nothing of others

A start that sees no such report for `ANSWER_LOOKS` listings takes earlier attempts to be over.
"""

from __future__ import annotations

import time

from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.records.documents import Documents
from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName, ListedCheckpoint
from ma_boot.node.checkpoints.records.retention import (
    find_leftovers,
    find_superfluous,
    finish_removals,
    remove_checkpoint,
)
from ma_boot.wording import ProgressLine

# Seconds; younger files may belong to a start that is not as dead as it seems.
SPARED_SECONDS = 3600.0
# Pauses between listings, in which an earlier start that still runs sees this one and reports itself.
ANSWER_LOOKS = 2


class Upkeep:
    """The upkeep of one output by node 0 of an attempt; on other nodes its methods do nothing."""

    def __init__(self, target: CheckpointRoute, attempt: Attempt, resumed: CheckpointName | None) -> None:
        # Attempts of other starts that publish at the same time.
        self.rivals: set[Attempt] = set()
        # Boots of later attempts of this process: a restart in place that did not come about.
        self.own_boots: set[str] = set()
        self._target = target
        self._attempt = attempt
        self._resumed = resumed
        # Checkpoints of earlier attempts, once these are known to be over.
        self._older: list[ListedCheckpoint] | None = None
        # Time of the last listing of attempts.
        self.looked = time.monotonic()
        self._began = self.looked

    def find_rivals(self, documents: Documents) -> None:
        """Looks, now and then, for other starts that use this place at the same time.

        Raises `StoreError` and `Cancelled`.
        """
        target, now = self._target, time.monotonic()
        if target.member.node != 0 or now - self.looked < target.listing_pause:
            return
        for key in documents.keys(target.place.attempts):
            document = target.place.attempt_of(key)
            if document is None:
                continue
            attempt, name = document
            if attempt == self._attempt:
                alive = target.place.living(name)
                if alive is not None and alive not in self.rivals:
                    self.rivals.add(alive)
                    self._report(f"{alive} began before this start and still publishes")
            elif attempt.inverted > self._attempt.inverted:
                # The rest of the listing is older: these attempts report themselves.
                break
            elif attempt not in self.rivals and name == "begin.json":
                self._answer(attempt, documents)
        self.looked = now

    def _answer(self, later: Attempt, documents: Documents) -> None:
        """Reports this start to a later attempt, unless that is one of this process, or was refused."""
        place = self._target.place
        begin = documents.read(place.of_attempt(later, "begin.json"))
        if not isinstance(begin, dict) or "refused" in begin or begin.get("boot") in self.own_boots:
            return
        self.rivals.add(later)
        job = self._target.member.job
        documents.write(place.of_attempt(later, f"alive-{self._attempt}.json"), {"job": job})
        of_job = f" of {begin['job']}" if begin.get("job") else ""
        self._report(
            f"{later}{of_job} has begun while this start still runs; the next start resumes from its "
            "checkpoints, and from those of this start only as long as it has none"
        )

    def _report(self, rival: str) -> None:
        self._target.say(
            f"checkpoints: TWO STARTS PUBLISH TO {self._target.place}: {rival}. This one is {self._attempt}. "
            "Two jobs must not share a URL ({job} in it keeps them apart); neither removes anything of "
            "the other"
        )

    def remove(self, documents: Documents) -> None:
        """Removes superseded checkpoints of this attempt, and of earlier ones once they are known to be over.

        One listing, of this attempt alone, except the first time. Raises `StoreError` and `Cancelled`.
        """
        target, keep = self._target, self._target.options.keep
        if target.member.node != 0:
            return
        is_alone = time.monotonic() - self._began >= ANSWER_LOOKS * target.listing_pause and not self.rivals
        is_first = self._attempt.number == 1
        if keep is not None and self._older is None and (is_alone or is_first):
            self._older = [] if is_first else self._list_earlier(documents)
        own = list(documents.list_checkpoints(self._attempt))
        older = [] if self.rivals else self._older or []
        spared = [self._resumed] if self._resumed else []
        superfluous = find_superfluous([*own, *older], keep, spared).all
        for checkpoint in superfluous:
            remove_checkpoint(documents, checkpoint, own)
        if self._older:
            removed = {checkpoint.name for checkpoint in superfluous}
            self._older = [checkpoint for checkpoint in self._older if checkpoint.name not in removed]

    def _list_earlier(self, documents: Documents) -> list[ListedCheckpoint]:
        """Lists the checkpoints of earlier attempts, after removing their leftovers."""
        finish_removals(documents)
        self._sweep(documents)
        listed, own = documents.list_checkpoints(), self._attempt.number
        return [checkpoint for checkpoint in listed if checkpoint.name.attempt.number < own]

    def _sweep(self, documents: Documents) -> None:
        """Removes files of earlier attempts that no manifest names; ages are by the store's clock."""
        target = self._target
        files = find_leftovers(documents, lambda attempt: attempt.number < self._attempt.number)
        begin = documents.find(target.place.of_attempt(self._attempt, "begin.json")) if files else None
        if begin is None:
            return
        old = [file for file in files if file.stored < begin.mtime_ns / 1e9 - SPARED_SECONDS]
        for file in old:
            documents.delete(file.key)
        if old:
            removed = f"{len(old)} files of steps that an earlier start could not publish"
            size = sum(file.size for file in old)
            target.say(ProgressLine(f"checkpoints: removed {removed}, {size:,} bytes"))
