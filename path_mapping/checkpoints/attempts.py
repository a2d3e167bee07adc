"""The start of an attempt: all nodes agree on the set to go on from, before any of them trains.

Node 0 chooses, says so in `begin.json`, and gives the go once every node has said that it has the set in
place. What a node says bears the random id of its start, and the go names these ids: so what an earlier start
of the job has left says nothing to a later one, and no clock is compared.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from path_mapping.errors import Cancelled, NodesMissing, SetDamaged, SetUnusable
from path_mapping.sets import (
    Attempt,
    CheckpointSet,
    Documents,
    Place,
    SetName,
    choose_newest,
    nodes_named,
    read_part,
    whole_set,
)

LOOK_SECONDS = (0.2, 5.0)  # between two looks for other nodes: the first, and the longest
REMIND_SECONDS = 30.0

Fetched = Tuple[int, int]  # files and bytes
Restore = Callable[[Optional[CheckpointSet]], Fetched]


class Member(NamedTuple):
    """A node of the job, from 0 on, the number of nodes, and the random id of this start.

    `job` is the name of the job for people, `checkpoint` how its output names the files of a step.
    """

    node: int
    nodes: int
    boot: str
    job: str = ""
    checkpoint: Tuple[str, ...] = ()

    @classmethod
    def starting(cls, node: int, nodes: int, job: str = "", checkpoint: Tuple[str, ...] = ()) -> Member:
        """The node at a new start."""
        return cls(node, nodes, os.urandom(8).hex(), job, checkpoint)


class Begun(NamedTuple):
    """An attempt that all nodes have begun, and the set that is in place on each of them, None for none.

    `fetched` are the files and bytes that this node did not have.
    """

    attempt: Attempt
    chosen: Optional[CheckpointSet]
    fetched: Fetched = (0, 0)


@dataclass(frozen=True)
class Start:
    """Brings one node to the beginning of an attempt.

    `restore` puts a set in place, or makes sure that no set is; it returns what it has fetched, and raises
    `SetDamaged`. `newest`: the newest
    set is gone on from; otherwise none. `say` gets lines for people. `timeout` is the time in seconds without
    news from any other node.
    """

    documents: Documents
    place: Place
    member: Member
    newest: bool
    restore: Restore
    say: Callable[[str], None]
    timeout: float

    def begin(self) -> Begun:
        """Returns when this node may train.

        Raises:
            NodesMissing: other nodes did not come in time.
            SetUnusable: `restore` cannot use the set.
            StoreError: the store failed.
            Cancelled: soon after the documents' `cancel` is set.
        """
        return self._lead() if self.member.node == 0 else self._follow()

    def _lead(self) -> Begun:
        damaged: Set[SetName] = set()
        number = self._last_number()
        while True:
            choice = choose_newest(self.documents, self.place, damaged) if self.newest else None
            chosen = choice.chosen if choice else None
            for line in choice.passed_over[:3] if choice else ():
                self.say(f"not whole, so passed over: {line}")
            if damaged and chosen is None:
                raise SetUnusable(
                    f"each of the {len(damaged)} sets in {self.place} is damaged; to begin anew, leave out "
                    "'restore' or choose another URL"
                )
            if choice and choice.passed_over and chosen is None:
                self.say(f"no checkpoint set in {self.place} is whole: THE TRAINING BEGINS ANEW")
            number += 1
            attempt = Attempt(number, os.urandom(2).hex())
            self._write(attempt, "begin.json", {
                "nodes": self.member.nodes, "boot": self.member.boot,
                "job": self.member.job, "checkpoint": list(self.member.checkpoint),
                "set": chosen.document() if chosen else None,
            })  # fmt: skip
            try:
                fetched = self.restore(chosen)
                if self._gathered(attempt):
                    return Begun(attempt, chosen, fetched)
            except SetDamaged as error:
                self.say(f"{chosen.name if chosen else 'the set'} is damaged, trying the one before: {error}")
                if chosen is not None:
                    damaged.add(chosen.name)

    def _last_number(self) -> int:
        for key in self.documents.keys(self.place.attempts):
            found = self.place.attempt_of(key)
            if found is not None:
                return found[0].number
        return 0

    def _gathered(self, attempt: Attempt) -> bool:
        """Waits for all nodes, then gives the go; False if there has to be another attempt.

        Raises `SetDamaged` if a node has found damage.
        """
        nodes = self.member.nodes
        if nodes == 1:
            return True
        boots: Dict[int, str] = {0: self.member.boot}
        heard: Set[str] = set()
        waiting = _Waiting(self.documents, self.timeout)
        while True:
            for name in self._names(attempt):
                if not name.startswith("ready-") or name in heard:
                    continue
                heard.add(name)
                said = self._read(attempt, name)
                node, boot, problem = said.get("node"), said.get("boot"), said.get("problem")
                if not isinstance(node, int) or not isinstance(boot, str) or not 0 < node < nodes:
                    continue
                waiting.news()
                if problem:
                    raise SetDamaged(f"node {node}: {problem}")
                if node in boots:  # one of them is dead: who is alive answers another attempt
                    self.say(f"two starts of node {node} have answered {attempt}: all are asked again")
                    return False
                boots[node] = boot
            missing = sorted(set(range(nodes)) - set(boots))
            if not missing:
                self._write(attempt, "go.json", {"boots": [boots[node] for node in range(nodes)]})
                return True
            waiting.pause(f"{nodes_named(missing)} to have the checkpoints of {attempt} in place", self.say)

    def _follow(self) -> Begun:
        """Takes part in the newest attempt until the go names this start."""
        waiting = _Waiting(self.documents, self.timeout)
        mine: Optional[Begun] = None
        while True:
            attempt, names = self._newest()
            if attempt is not None and mine is not None and mine.attempt == attempt and "go.json" in names:
                boots = self._read(attempt, "go.json").get("boots")
                if isinstance(boots, list) and self.member.boot in boots:
                    return mine
            elif attempt is not None and (mine is None or mine.attempt != attempt) and "go.json" not in names:
                joined = self._joined(attempt)
                if joined is not None:
                    mine = joined
                    waiting.news()
                    continue
            waiting.pause(self._what_follows(attempt, names, mine), self.say)

    def _what_follows(self, attempt: Optional[Attempt], names: List[str], mine: Optional[Begun]) -> str:
        """What a node waits for that has done its part."""
        if attempt is not None and "go.json" in names:
            return (
                f"node 0 to begin a new attempt: {attempt} has gone on with an earlier start of "
                f"node {self.member.node}"
            )
        if mine is not None and mine.attempt == attempt:
            return f"node 0 to go on with {attempt}: other nodes are not ready"
        return "node 0 to begin a new attempt"

    def _joined(self, attempt: Attempt) -> Optional[Begun]:
        """Puts the attempt's set in place and says so; None if the attempt is not one of this job."""
        begin = self._read(attempt, "begin.json")
        if not begin:
            return None
        node, nodes = self.member.node, self.member.nodes
        if begin.get("nodes") != nodes:
            return Begun(attempt, None)  # an earlier job's: its go will not name this start
        problem, fetched = "", (0, 0)
        chosen: Optional[CheckpointSet] = None
        try:
            chosen = _chosen(begin)
            fetched = self.restore(chosen)
        except SetDamaged as error:
            problem = str(error)
            self.say(f"{chosen.name if chosen else 'the set'} is damaged in the store: {problem}")
        said = {"node": node, "boot": self.member.boot, "problem": problem}
        self._write(attempt, f"ready-{node:05}-{self.member.boot}.json", said)
        return Begun(attempt, chosen, fetched)

    def _newest(self) -> Tuple[Optional[Attempt], List[str]]:
        """The newest attempt, and the names of its documents."""
        newest: Optional[Attempt] = None
        names: List[str] = []
        for key in self.documents.keys(self.place.attempts):
            found = self.place.attempt_of(key)
            if found is None:
                continue
            if newest is not None and found[0] != newest:
                break
            newest = found[0]
            names.append(found[1])
        return newest, names

    def _names(self, attempt: Attempt) -> List[str]:
        keys = self.documents.keys(self.place.of_attempt(attempt, ""))
        return [found[1] for found in map(self.place.attempt_of, keys) if found is not None]

    def _read(self, attempt: Attempt, name: str) -> Dict[str, Any]:
        """A document of an attempt; empty if there is none, or it is damaged."""
        found = self.documents.read(self.place.of_attempt(attempt, name))
        return found if isinstance(found, dict) else {}

    def _write(self, attempt: Attempt, name: str, document: Dict[str, object]) -> None:
        self.documents.write(self.place.of_attempt(attempt, name), document)


def _chosen(begin: Dict[str, object]) -> Optional[CheckpointSet]:
    found = begin.get("set")
    if not isinstance(found, list) or not found:
        return None
    parts = [read_part(one) for one in found]
    return whole_set(parts[0].name, parts, len(parts))


class _Waiting:
    """The pauses between looks, which grow; a line every half minute, and an end without news."""

    def __init__(self, documents: Documents, timeout: float) -> None:
        self._documents = documents
        self._timeout = timeout
        self._said = time.monotonic()
        self.news()

    def news(self) -> None:
        """Something has happened."""
        self._since = time.monotonic()
        self._pause = LOOK_SECONDS[0]

    def pause(self, what: str, say: Callable[[str], None]) -> None:
        """Sleeps before the next look for `what`; raises `NodesMissing` and `Cancelled`."""
        now = time.monotonic()
        if now - self._since > self._timeout:
            raise NodesMissing(f"waited for {self._timeout:.0f} s for {what}, without news")
        if now - self._said >= REMIND_SECONDS:
            say(f"waiting for {what}, for {now - self._since:.0f} s")
            self._said = now
        if self._documents.cancel.wait(self._pause):
            raise Cancelled
        self._pause = min(self._pause * 1.5, LOOK_SECONDS[1])
