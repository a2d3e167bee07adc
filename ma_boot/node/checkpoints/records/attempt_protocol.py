"""Agreement of all nodes on the checkpoint to resume from, before any of them trains. Pure.

The nodes exchange documents in OBS only, each written once by one node, below `.ma_boot/attempts/ATTEMPT/`:

    node 0 (leader)                                     node k (follower)
    ---------------                                     -----------------
    choose the newest complete checkpoint
    begin.json: its parts, boot 0         ----------->  newest attempt of this start of this job
    attempt of another job that runs?
      withdrawn.json: the reason          ----------->  ConfigError
    restore                                             restore; meanwhile
                                          <-----------    sign-k-BOOT-0.json, -1.json, ...: still downloading
                                          <-----------  ready-k-BOOT.json: done, or the damage found
    all nodes ready: go.json, all boots   ----------->  own boot is in it: train
    damage, or two boots of one node:
      next attempt, begin.json again      ----------->  restore again
    job over, or an error: end.json

A *boot* is a random number of one ma_boot process. Every document has the job and the start of the job that
wrote it, and `go.json` the boots that it is for. So documents of another job or an earlier start are ignored,
and no clocks of different machines are compared.

Two jobs at one URL: each lists the attempts after it has written its own `begin.json`. So at least the later
of the two sees the other one. An attempt has a rival if a newer or equally new attempt of another job has not
ended. The job with the higher (number, tag) withdraws; the other one waits for that, and withdraws itself
after `WITHDRAWAL_SECONDS`: at most one continues.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from enum import Enum
from typing import Any, Callable, NamedTuple

from ma_boot.node.checkpoints.records.job_member import JobMember
from ma_boot.node.checkpoints.records.keys import Attempt, nodes_named

# Seconds; pause before the next look for peers: the first, and the longest. Each pause is 1.5 times the last.
LOOK_SECONDS = (0.2, 5.0)
# Seconds between two lines that name what a node waits for.
REMIND_SECONDS = 30.0
# Listed pages per second by all nodes of a job: half of the limit of OBS for an account.
LISTINGS_A_SECOND = 500
# Keys of a page of a listing.
PAGE = 1000

BEGIN, GO, END, WITHDRAWN = "begin.json", "go.json", "end.json", "withdrawn.json"

Document = Mapping[str, Any]
# Reads a document of an attempt by its name; empty if it is missing or damaged.
Read = Callable[[Attempt, str], Document]


class ListedAttempt(NamedTuple):
    """An attempt as a listing shows it: the names of its documents."""

    attempt: Attempt
    names: AbstractSet[str]


def find_rival(
    attempts: Iterable[ListedAttempt], read: Read, job: str, mine: Attempt | None = None
) -> Attempt | None:
    """Returns the newest attempt of another job that has not ended; None if there is none.

    `attempts` are the newest first. With `mine`, only attempts that are not older are rivals; without, the
    newest valid attempt decides.
    """
    for attempt, names in attempts:
        if attempt == mine:
            continue
        if mine is not None and attempt.number < mine.number:
            return None
        begin = read(attempt, BEGIN)
        if not begin or "refused" in begin or WITHDRAWN in names:
            continue
        if begin.get("job", job) != job and END not in names:
            return attempt
        if mine is None:
            return None
    return None


def must_withdraw(mine: Attempt, rival: Attempt) -> bool:
    """Returns whether the job of attempt `mine` gives way to the job of `rival` at once."""
    return (rival.number, rival.tag) < (mine.number, mine.tag)


class PlaceRefusal(NamedTuple):
    """The reason, written by node 0, that this start may not use the output's place."""

    reason: str


def find_own_attempt(
    attempts: Iterable[ListedAttempt], read: Read, member: JobMember, take_over: bool
) -> ListedAttempt | PlaceRefusal | None:
    """Returns the newest attempt of this start, a `PlaceRefusal` if node 0 was refused, or None."""
    for listed in attempts:
        attempt, names = listed
        begin = read(attempt, BEGIN) if BEGIN in names else {}
        if (begin.get("job"), begin.get("start")) != (member.job, member.start):
            continue
        refused = begin if "refused" in begin and not take_over else {}
        if WITHDRAWN in names:
            refused = read(attempt, WITHDRAWN)
        if "refused" in refused:
            return PlaceRefusal(str(refused["refused"]))
        if "refused" not in begin and begin.get("nodes") == member.nodes and END not in names:
            return listed
    return None


class LeaderState(NamedTuple):
    """Leader's state while it waits for all nodes: `boots` has the boot of each node that is ready.

    `names` are the answers that were read. `damage` is what a node has found, `repeated` a node of which two
    boots have answered: one of them is dead, and only another attempt shows which.
    """

    member: JobMember
    boots: Mapping[int, str]
    names: frozenset[str] = frozenset()
    damage: str = ""
    repeated: int | None = None

    def unread(self, names: Collection[str]) -> list[str]:
        """Returns the answers among these documents that were not read yet, sorted."""
        return sorted(name for name in set(names) - self.names if name.startswith("ready-"))

    def with_answers(self, names: Iterable[str], answers: Sequence[Any]) -> LeaderState:
        """Returns the next state; answers of another job or start, and invalid ones, are ignored.

        The first answer that has an effect on the attempt ends it: later ones are not looked at.
        """
        state = self._replace(names=self.names | set(names))
        for answer in answers:
            if state.damage or state.repeated is not None:
                break
            if isinstance(answer, dict):
                state = state._with_answer(answer)
        return state

    def _with_answer(self, answer: Document) -> LeaderState:
        node, boot = answer.get("node"), answer.get("boot")
        is_own = (answer.get("job"), answer.get("start")) == (self.member.job, self.member.start)
        if not is_own or not isinstance(node, int) or not isinstance(boot, str):
            return self
        if not 0 < node < self.member.nodes:
            return self
        if answer.get("problem"):
            return self._replace(damage=f"node {node}: {answer['problem']}")
        if node in self.boots:
            return self._replace(repeated=node)
        return self._replace(boots={**self.boots, node: boot})

    @property
    def missing(self) -> list[int]:
        """Nodes that are not ready, sorted."""
        return sorted(set(range(self.member.nodes)) - set(self.boots))

    @property
    def go(self) -> dict[str, Any]:
        """The contents of `go.json`."""
        return {"boots": [self.boots[node] for node in range(self.member.nodes)]}

    def awaited(self, attempt: Attempt) -> str:
        """Returns a phrase for what the leader waits for."""
        noun = "node" if len(self.missing) == 1 else "nodes"
        return f"{noun} {nodes_named(self.missing)} to have the checkpoints of {attempt} in place"


class FollowerAction(Enum):
    """Next step of a follower."""

    JOIN = "restore the newest attempt's checkpoint, and report"
    READ_GO = "look for the own boot in go.json"
    WAIT = "pause, and look again"


class FollowerState(NamedTuple):
    """Follower's state: the attempt that it has `joined`, and the `newest` one of its last listing."""

    member: JobMember
    joined: Attempt | None = None
    newest: ListedAttempt | None = None

    def action(self, is_listed: bool) -> FollowerAction:
        """Returns the next step. `is_listed`: the newest attempt is of a listing made just now.

        Many nodes may make few listings; between two of them a node only reads `go.json`.
        """
        has_go = self.newest is not None and GO in self.newest.names
        if self.newest is not None and self.newest.attempt != self.joined:
            return FollowerAction.WAIT if has_go else FollowerAction.JOIN
        if self.joined is not None and (has_go or not is_listed):
            return FollowerAction.READ_GO
        return FollowerAction.WAIT

    @property
    def awaited(self) -> str:
        """Phrase for what the follower waits for."""
        newest = self.newest
        if newest is not None and GO in newest.names:
            return (
                f"node 0 to begin a new attempt: {newest.attempt} has started with an earlier boot of "
                f"node {self.member.node}"
            )
        if newest is not None and self.joined == newest.attempt:
            return f"node 0 to start {newest.attempt}: other nodes are not ready"
        return "node 0 to begin a new attempt"


class Waiting(NamedTuple):
    """Pauses between looks: they grow, and are short again after news. Times are monotonic, in seconds.

    `since` is the time of the last news, `reminded` that of the last line, `listed` that of the last listing,
    `names` are its documents.
    """

    since: float
    reminded: float
    pause: float
    listed: float = -math.inf
    names: frozenset[str] = frozenset()

    @classmethod
    def begin(cls, now: float) -> Waiting:
        """Returns the state at the beginning."""
        return cls(now, now, LOOK_SECONDS[0])

    def may_list(self, nodes: int, now: float) -> bool:
        """Returns whether so many nodes that list now and then stay below the limit of OBS."""
        pages = 1 + len(self.names) // PAGE
        return now >= self.listed + nodes * pages / LISTINGS_A_SECOND

    def with_listing(self, names: Iterable[str], now: float) -> Waiting:
        """After a listing of the peers' documents: a new one is news."""
        listed = self._replace(names=frozenset(names), listed=now)
        return listed.with_news(now) if listed.names - self.names else listed

    def with_news(self, now: float) -> Waiting:
        """After a sign of life."""
        return self._replace(since=now, pause=LOOK_SECONDS[0])

    def after_pause(self) -> Waiting:
        """After a pause: the next one is longer."""
        return self._replace(pause=min(self.pause * 1.5, LOOK_SECONDS[1]))

    def is_reminder_due(self, now: float) -> bool:
        """Returns whether a line has to say what the node waits for."""
        return now - self.reminded >= REMIND_SECONDS
