"""Begins attempts: runs `attempt_protocol` over the documents in OBS, as leader or as follower."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count, groupby, islice
from typing import Any, Callable, NamedTuple, Optional

from ma_boot.errors import CheckpointDamaged, ConfigError, NodesLate
from ma_boot.node.checkpoints.checkpoint_route import CheckpointRoute
from ma_boot.node.checkpoints.records.attempt_protocol import (
    BEGIN,
    END,
    GO,
    LOOK_SECONDS,
    WITHDRAWN,
    Document,
    FollowerAction,
    FollowerState,
    LeaderState,
    ListedAttempt,
    PlaceRefusal,
    Waiting,
    find_own_attempt,
    find_rival,
    must_withdraw,
)
from ma_boot.node.checkpoints.records.documents import Documents, read_checkpoints
from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Attempt, CheckpointName
from ma_boot.node.checkpoints.records.manifest import Checkpoint, assemble_checkpoint, read_part
from ma_boot.wording import Message, ProgressLine
from path_mapping.errors import Cancelled, PathMappingError
from path_mapping.workers.retry import RetriedStore, RetryPolicy

# Seconds between two signs of life of a node that downloads.
SIGN_SECONDS = 20.0
# Seconds; the first of two jobs waits so long for the second to withdraw.
WITHDRAWAL_SECONDS = 30.0
# Seconds; `end.json` is a courtesy to other jobs, for which the end of the node does not wait longer.
END_RETRY_SECONDS = 5.0
# A follower looks for the newest attempt of its start among so many: about one page of a listing.
_MOST_ATTEMPTS = 200

Restore = Callable[[Optional[Checkpoint]], tuple[int, int]]


class BegunAttempt(NamedTuple):
    """An attempt that all nodes have begun, and the checkpoint in place on each of them, None for none.

    This node has downloaded `files` files of `size` bytes.
    """

    attempt: Attempt
    checkpoint: Checkpoint | None
    files: int = 0
    size: int = 0


class AttemptDocuments(NamedTuple):
    """The documents of attempts at one place, read and written for one start of a job."""

    documents: Documents
    member: JobMember

    def attempts(self) -> Iterator[ListedAttempt]:
        """Lists the attempts, the newest first; a page is requested when it is needed."""
        place = self.documents.place
        found = filter(None, map(place.attempt_of, self.documents.keys(place.attempts)))
        for attempt, group in groupby(found, key=lambda document: document[0]):
            yield ListedAttempt(attempt, {name for _, name in group})

    def names(self, attempt: Attempt) -> set[str]:
        """Lists the names of the documents of an attempt."""
        place = self.documents.place
        keys = self.documents.keys(place.of_attempt(attempt, ""))
        return {document[1] for document in map(place.attempt_of, keys) if document is not None}

    def read(self, attempt: Attempt, name: str) -> Document:
        """Reads a document of an attempt; returns an empty one if it is missing or damaged."""
        document = self.documents.read(self.documents.place.of_attempt(attempt, name))
        return document if isinstance(document, dict) else {}

    def read_all(self, attempt: Attempt, names: list[str]) -> list[Any | None]:
        """Reads documents of an attempt, several at a time."""
        place = self.documents.place
        return self.documents.read_all([place.of_attempt(attempt, name) for name in names])

    def write(self, attempt: Attempt, name: str, document: Document) -> None:
        """Writes a document with the job and its start."""
        origin = {"job": self.member.job, "start": self.member.start}
        self.documents.write(self.documents.place.of_attempt(attempt, name), {**origin, **document})

    def delete(self, attempt: Attempt, name: str) -> None:
        """Deletes a document."""
        self.documents.delete(self.documents.place.of_attempt(attempt, name))


@dataclass(frozen=True)
class AttemptStart:
    """Brings one node to the beginning of an attempt.

    `timeout` is the longest wait, in seconds, without news from any other node. `restore` puts a checkpoint
    in place, or makes sure that none is there; it returns the files and bytes downloaded, and raises
    `CheckpointDamaged`. Without it no checkpoint is resumed from.
    """

    target: CheckpointRoute
    documents: Documents
    timeout: float
    restore: Restore | None
    boot: str = field(default_factory=lambda: os.urandom(8).hex())

    def begin(self) -> BegunAttempt:
        """Returns when this node may train.

        Raises:
            NodesLate: other nodes did not come in time.
            ConfigError: another job publishes here, or `restore` cannot use the checkpoint.
            StoreError: the store failed.
            Cancelled: soon after the documents' `cancel` is set.
        """
        return _lead(self) if self.target.member.node == 0 else _follow(self)

    @property
    def of_attempts(self) -> AttemptDocuments:
        """The documents of attempts at the output's place."""
        return AttemptDocuments(self.documents, self.target.member)

    def restore_for(self, attempt: Attempt, checkpoint: Checkpoint | None) -> tuple[int, int]:
        """Restores a checkpoint, with signs of life; returns the files and bytes downloaded."""
        if self.restore is None:
            return 0, 0
        with _signs_of_life(self, attempt):
            return self.restore(checkpoint)

    def pause(self, waiting: Waiting, awaited: str) -> Waiting:
        """Sleeps before the next look for `awaited`; raises `NodesLate` and `Cancelled`."""
        now = time.monotonic()
        if now - waiting.since > self.timeout:
            seconds = f"{self.timeout:.0f}"
            raise NodesLate(Message.of("checkpoints: waited for {} s for {}, without news", seconds, awaited))
        if waiting.is_reminder_due(now):
            self.target.say(f"waiting for {awaited}, for {now - waiting.since:.0f} s without news")
            waiting = waiting._replace(reminded=now)
        self.sleep(waiting.pause)
        return waiting.after_pause()

    def sleep(self, seconds: float) -> None:
        """Sleeps; raises `Cancelled`."""
        if self.documents.to.cancel.wait(seconds):
            raise Cancelled


def write_end(documents: Documents, attempt: Attempt) -> None:
    """Notes that an attempt has ended, so that another job may use its place; best effort."""
    at_once = Documents(
        RetriedStore(documents.to.store, patience=RetryPolicy(END_RETRY_SECONDS)), documents.place
    )
    with suppress(PathMappingError):
        at_once.write(documents.place.of_attempt(attempt, END), {})


def _lead(start: AttemptStart) -> BegunAttempt:
    """Begins attempts, as node 0, until all nodes have the chosen checkpoint in place."""
    documents, options = start.of_attempts, start.target.options
    damaged: set[CheckpointName] = set()
    number = last_number(start)
    while True:
        checkpoint = _choose(start, damaged)
        number += 1
        attempt = Attempt(number, os.urandom(2).hex())
        begin = {
            "nodes": start.target.member.nodes,
            "boot": start.boot,
            "layout": list(options.layout),
            "parts": checkpoint.document() if checkpoint else None,
        }
        documents.write(attempt, BEGIN, begin)
        try:
            _withdraw_if_second(start, attempt)
            downloaded = start.restore_for(attempt, checkpoint)
            if _gather(start, attempt):
                return BegunAttempt(attempt, checkpoint, *downloaded)
        except CheckpointDamaged as error:
            name = checkpoint.name if checkpoint else "the checkpoint"
            start.target.say(f"{name} is damaged, trying the one before: {error}")
            if checkpoint is not None:
                damaged.add(checkpoint.name)
        except BaseException:
            write_end(start.documents, attempt)
            raise


def last_number(start: AttemptStart) -> int:
    """Returns the number of the newest attempt; raises `ConfigError` if another job still runs it.

    The other nodes read the reason in an attempt of this job that is never begun.
    """
    documents, target = start.of_attempts, start.target
    attempts = documents.attempts()
    newest = list(islice(attempts, 1))
    number = newest[0].attempt.number if newest else 0
    rival = find_rival(chain(newest, attempts), documents.read, target.member.job)
    if rival is not None and not target.take_over:
        _refuse(start, Attempt(number + 1, os.urandom(2).hex()), BEGIN, rival)
    return number


def _withdraw_if_second(start: AttemptStart, mine: Attempt) -> None:
    """Raises `ConfigError` if another job that has begun at the same time takes precedence."""
    documents, job = start.of_attempts, start.target.member.job
    until = time.monotonic() + WITHDRAWAL_SECONDS
    rival = find_rival(documents.attempts(), documents.read, job, mine)
    while rival is not None:
        if must_withdraw(mine, rival) or time.monotonic() > until:
            _refuse(start, mine, WITHDRAWN, rival)
        start.sleep(LOOK_SECONDS[0])
        rival = find_rival(documents.attempts(), documents.read, job, mine)


def _refuse(start: AttemptStart, attempt: Attempt, name: str, rival: Attempt) -> None:
    """Writes the reason for the other nodes; raises `ConfigError`."""
    documents = start.of_attempts
    job = documents.read(rival, BEGIN).get("job") or "without a name"
    reason = (
        f"checkpoints: {start.target.place} is in use: job {job} has begun {rival} there, and is not known "
        "to have ended. If it has, start with --take-over; if it has not, give this job a URL of its own, "
        "as with {job} in it"
    )
    documents.write(attempt, name, {"refused": reason})
    raise ConfigError(reason)


def _choose(start: AttemptStart, damaged: set[CheckpointName]) -> Checkpoint | None:
    """Returns the checkpoint to resume from; logs the incomplete ones that are skipped."""
    if start.restore is None:
        return None
    chosen: Checkpoint | None = None
    skipped: list[str] = []
    for row in read_checkpoints(start.documents, damaged):
        chosen = row.checkpoint
        if chosen is not None:
            break
        skipped.append(f"{row.listed.name}: {row.why}")
    for line in skipped[:3]:
        start.target.say(ProgressLine(f"skipping incomplete checkpoint: {line}"))
    if damaged and chosen is None:
        raise ConfigError(
            Message.of(
                "checkpoints: each of the {} complete checkpoints in {} is damaged; to start from the "
                "beginning, leave out 'restore' or choose another URL",
                len(damaged),
                start.target.place,
            )
        )
    if skipped and chosen is None:
        start.target.say(
            f"no checkpoint in {start.target.place} is complete: THE TRAINING STARTS FROM THE BEGINNING"
        )
    return chosen


def _gather(start: AttemptStart, attempt: Attempt) -> bool:
    """Waits for all nodes, then writes `go.json`; returns False if another attempt is needed.

    Raises `CheckpointDamaged` if a node has found damage.
    """
    documents, member = start.of_attempts, start.target.member
    state = LeaderState(member, {0: start.boot})
    waiting = Waiting.begin(time.monotonic())
    while state.missing:
        names = documents.names(attempt)
        waiting = waiting.with_listing(names, time.monotonic())
        unread = state.unread(names)
        state = state.with_answers(unread, documents.read_all(attempt, unread))
        if state.damage:
            raise CheckpointDamaged(state.damage)
        if state.repeated is not None:
            start.target.say(
                f"two boots of node {state.repeated} have answered {attempt}: beginning another attempt"
            )
            return False
        if state.missing:
            waiting = start.pause(waiting, state.awaited(attempt))
    if member.nodes > 1:
        documents.write(attempt, GO, state.go)
    return True


def _follow(start: AttemptStart) -> BegunAttempt:
    """Takes part in the newest attempt of this start until `go.json` names this boot."""
    documents, target = start.of_attempts, start.target
    begins: dict[Attempt, Document] = {}
    state, begun = FollowerState(target.member), None
    waiting = Waiting.begin(time.monotonic())

    def read(attempt: Attempt, name: str) -> Document:
        """Reads each `begin.json` once."""
        if name != BEGIN:
            return documents.read(attempt, name)
        begins[attempt] = begins.get(attempt) or documents.read(attempt, name)
        return begins[attempt]

    while True:
        now = time.monotonic()
        is_listed = waiting.may_list(target.member.nodes, now)
        if is_listed:
            attempts = islice(documents.attempts(), _MOST_ATTEMPTS)
            newest = find_own_attempt(attempts, read, target.member, target.take_over)
            if isinstance(newest, PlaceRefusal):
                raise ConfigError(newest.reason)
            state = state._replace(newest=newest)
            names = newest.names if newest is not None else ()
            waiting = waiting.with_listing((name for name in names if start.boot not in name), now)
        action = state.action(is_listed)
        if action is FollowerAction.JOIN and state.newest is not None:
            attempt = state.newest.attempt
            begun = _join(start, attempt, begins[attempt])
            state, waiting = state._replace(joined=attempt), waiting.with_news(time.monotonic())
            continue
        if action is FollowerAction.READ_GO and begun is not None:
            boots = documents.read(begun.attempt, GO).get("boots")
            if isinstance(boots, list) and start.boot in boots:
                return begun
        waiting = start.pause(waiting, state.awaited)


def _join(start: AttemptStart, attempt: Attempt, begin: Document) -> BegunAttempt:
    """Puts the attempt's checkpoint in place, and reports to node 0."""
    problem, downloaded = "", (0, 0)
    checkpoint: Checkpoint | None = None
    try:
        parts = begin.get("parts")
        if isinstance(parts, list) and parts:
            checkpoint = assemble_checkpoint([read_part(part) for part in parts])
        downloaded = start.restore_for(attempt, checkpoint)
    except CheckpointDamaged as error:
        problem = str(error)
        name = checkpoint.name if checkpoint else "the checkpoint"
        start.target.say(f"{name} is damaged in the store: {problem}")
    node = start.target.member.node
    answer = {"node": node, "boot": start.boot, "problem": problem}
    start.of_attempts.write(attempt, f"ready-{node:05}-{start.boot}.json", answer)
    return BegunAttempt(attempt, checkpoint, *downloaded)


@contextmanager
def _signs_of_life(start: AttemptStart, attempt: Attempt) -> Iterator[None]:
    """Writes signs of life while the block runs, so that the other nodes go on waiting for this one."""
    if start.target.member.nodes == 1:
        yield
        return
    done = threading.Event()
    thread = threading.Thread(
        target=partial(_write_signs, start, attempt, done), name="signs of life", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        done.set()


def _write_signs(start: AttemptStart, attempt: Attempt, done: threading.Event) -> None:
    """Writes signs under new names, as a listing shows only names; deletes the sign before."""
    documents, before = start.of_attempts, ""
    for number in count():
        # A quarter of the peers' timeout: a sign or two may get lost.
        if done.wait(min(SIGN_SECONDS, start.timeout / 4)):
            return
        name = f"sign-{start.target.member.node:05}-{start.boot}-{number}.json"
        with suppress(PathMappingError):  # the next sign may arrive
            documents.write(attempt, name, {})
            if before:
                documents.delete(attempt, before)
            before = name
