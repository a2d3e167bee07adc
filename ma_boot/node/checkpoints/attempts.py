"""The start of an attempt: all nodes agree on the set to go on from, before any of them trains.

Node 0 chooses, says so in `begin.json`, and gives the go once every node has answered that it has the set in
place. Every document has the job and the start of it that wrote it, and the go names the boots that it is
for: so what another job, or an earlier start, has left says nothing to this one, and no clock is compared.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, count, groupby, islice
from typing import Any, Callable, NamedTuple

from ma_boot.errors import CheckpointDamaged, ConfigError, NodesLate
from ma_boot.node.checkpoints.keys import Attempt, Place, SetName, nodes_named
from ma_boot.node.checkpoints.manifest import CheckpointSet, read_part, whole_set
from ma_boot.node.checkpoints.publication import JobStart
from ma_boot.node.checkpoints.sets import Documents, read_sets
from ma_boot.wording import Message, ProgressLine
from path_mapping.errors import Cancelled, PathMappingError
from path_mapping.workers.retry import RetriedStore, RetryPolicy

LOOK_SECONDS = (0.2, 5.0)  # between two looks for other nodes: the first, and the longest
REMIND_SECONDS = 30.0
LISTINGS_A_SECOND = 500  # pages, of all nodes of a job: half of what OBS allows an account
SIGN_SECONDS = 20.0  # between two signs of life of a node that fetches
WITHDRAWAL_SECONDS = 30.0  # for which the first of two jobs waits until the second has given way

_MOST_ATTEMPTS = 200  # that are looked through for the newest of this start: about a page


class Restored(NamedTuple):
    """An attempt that all nodes have begun, and the set that is in place on each of them, None for none.

    This node has fetched `files` files, of `size` bytes.
    """

    attempt: Attempt
    chosen: CheckpointSet | None
    files: int = 0
    size: int = 0


@dataclass(frozen=True)
class Start:
    """Brings one node to the beginning of an attempt.

    `layout` is how the output names the files of a step. `say` gets lines for people. `timeout` is the time
    in seconds without a sign of life from any other node. `restorer` puts a set in place, or makes sure that
    no set is; it returns what it has fetched, and raises `CheckpointDamaged`. Without it no set is gone on
    from.
    """

    documents: Documents
    start: JobStart
    layout: tuple[str, ...]
    say: Callable[[str], None]
    timeout: float
    restorer: Callable[[CheckpointSet | None], tuple[int, int]] | None
    boot: str = field(default_factory=lambda: os.urandom(8).hex())  # of this node

    @property
    def place(self) -> Place:
        """Where the output's sets are."""
        return self.documents.place

    def begin(self) -> Restored:
        """Returns when this node may train.

        Raises:
            NodesLate: other nodes did not come in time.
            ConfigError: another job publishes here, or `restore` cannot use the set.
            StoreError: the store failed.
            Cancelled: soon after the documents' `cancel` is set.
        """
        return self._lead() if self.start.node == 0 else self._follow()

    def _restore(self, attempt: Attempt, chosen: CheckpointSet | None) -> tuple[int, int]:
        if self.restorer is None:
            return 0, 0
        with self._signs_of_life(attempt):
            return self.restorer(chosen)

    def _lead(self) -> Restored:
        damaged: set[SetName] = set()
        number = self._last_number()
        while True:
            chosen = self._choice(damaged)
            number += 1
            attempt = Attempt(number, os.urandom(2).hex())
            self._write(attempt, "begin.json", {
                "nodes": self.start.nodes, "boot": self.boot, "checkpoint": list(self.layout),
                "set": chosen.document() if chosen else None,
            })  # fmt: skip
            try:
                self._give_way(attempt)
                fetched = self._restore(attempt, chosen)
                if self._gathered(attempt):
                    return Restored(attempt, chosen, *fetched)
            except CheckpointDamaged as error:
                self.say(f"{chosen.name if chosen else 'the set'} is damaged, trying the one before: {error}")
                if chosen is not None:
                    damaged.add(chosen.name)
            except BaseException:
                write_end(self.documents, attempt)
                raise

    def _last_number(self) -> int:
        """The number of the newest attempt; raises `ConfigError` if another job has begun it and still runs.

        The other nodes read the reason in an attempt of this job, which no node begins.
        """
        attempts = self._attempts()
        newest = list(islice(attempts, 1))
        number = newest[0][0].number if newest else 0
        rival = self._rival(chain(newest, attempts), None)
        if rival is not None and not self.start.take_over:
            self._refuse(Attempt(number + 1, os.urandom(2).hex()), "begin.json", rival)
        return number

    def _give_way(self, mine: Attempt) -> None:
        """Ends this start if another job has begun at the same time: the second gives way to the first.

        Whoever has not seen the other goes on; so the first waits until the second, which then has seen it,
        has withdrawn, and else gives way itself.
        """
        rival, until = self._rival(self._attempts(), mine), time.monotonic() + WITHDRAWAL_SECONDS
        while rival is not None:
            if (rival.number, rival.tag) < (mine.number, mine.tag) or time.monotonic() > until:
                self._refuse(mine, "withdrawn.json", rival)
            if self.documents.to.cancel.wait(LOOK_SECONDS[0]):
                raise Cancelled
            rival = self._rival(self._attempts(), mine)

    def _rival(self, attempts: Iterable[tuple[Attempt, set[str]]], mine: Attempt | None) -> Attempt | None:
        """The newest attempt, if it is another job's that has not ended; with `mine`, one as new as that."""
        for attempt, names in attempts:
            if attempt == mine:
                continue
            if mine is not None and attempt.number < mine.number:
                return None
            begin = self._read(attempt, "begin.json")
            if not begin or "refused" in begin or "withdrawn.json" in names:
                continue
            if begin.get("job", self.start.job) != self.start.job and "end.json" not in names:
                return attempt
            if mine is None:
                return None
        return None

    def _refuse(self, attempt: Attempt, name: str, rival: Attempt) -> None:
        job = self._read(rival, "begin.json").get("job") or "without a name"
        why = (
            f"checkpoints: {self.place} is in use: job {job} has begun {rival} there, and is not known to "
            "have ended. If it has, start with --take-over; if it has not, give this job a URL of its own, "
            "as with {job} in it"
        )
        self._write(attempt, name, {"refused": why})
        raise ConfigError(why)

    def _choice(self, damaged: set[SetName]) -> CheckpointSet | None:
        """Returns the set to resume from; logs the incomplete ones that are skipped."""
        if self.restorer is None:
            return None
        chosen: CheckpointSet | None = None
        passed_over: list[str] = []
        for row in read_sets(self.documents, damaged):
            chosen = row.whole
            if chosen is not None:
                break
            passed_over.append(f"{row.known.name}: {row.why}")
        for line in passed_over[:3]:
            self.say(ProgressLine(f"skipping incomplete checkpoint: {line}"))
        if damaged and chosen is None:
            raise ConfigError(
                Message.of(
                    "checkpoints: each of the {} sets in {} is damaged; to start from the beginning, "
                    "leave out 'restore' or choose another URL",
                    len(damaged),
                    self.place,
                )
            )
        if passed_over and chosen is None:
            self.say(f"no checkpoint set in {self.place} counts: THE TRAINING STARTS FROM THE BEGINNING")
        return chosen

    def _gathered(self, attempt: Attempt) -> bool:
        """Waits for all nodes, then gives the go; False if there has to be another attempt.

        Raises `CheckpointDamaged` if a node has found damage.
        """
        nodes = self.start.nodes
        boots: dict[int, str] = {0: self.boot}
        answers: set[str] = set()
        waiting = _Waiting(self.documents, self.timeout, self.say)
        while len(boots) < nodes:
            names = self._names(attempt)
            waiting.note(names)
            new = sorted(name for name in names - answers if name.startswith("ready-"))
            answers.update(new)
            for answer in self.documents.read_all([self.place.of_attempt(attempt, name) for name in new]):
                if not isinstance(answer, dict):
                    continue
                node, boot, problem = answer.get("node"), answer.get("boot"), answer.get("problem")
                mine = (answer.get("job"), answer.get("start")) == (self.start.job, self.start.start)
                if not mine or not isinstance(node, int) or not isinstance(boot, str) or not 0 < node < nodes:
                    continue
                if problem:
                    raise CheckpointDamaged(f"node {node}: {problem}")
                if node in boots:  # one of them is dead: who is alive answers another attempt
                    self.say(f"two starts of node {node} have answered {attempt}: all are asked again")
                    return False
                boots[node] = boot
            missing = sorted(set(range(nodes)) - set(boots))
            if missing:
                of = "node" if len(missing) == 1 else "nodes"
                waiting.pause(f"{of} {nodes_named(missing)} to have the checkpoints of {attempt} in place")
        if nodes > 1:
            self._write(attempt, "go.json", {"boots": [boots[node] for node in range(nodes)]})
        return True

    def _follow(self) -> Restored:
        """Takes part in the newest attempt of this start until the go names this boot.

        Between two listings, of which many nodes may make few, it only asks for the go.
        """
        waiting = _Waiting(self.documents, self.timeout, self.say)
        joined: Restored | None = None
        begins: dict[Attempt, dict[str, Any]] = {}
        while True:
            listed = waiting.may_list(self.start.nodes)
            if listed:
                attempt, names = self._newest(begins)
                waiting.note({name for name in names if self.boot not in name})
            if attempt is not None and (joined is None or joined.attempt != attempt):
                if "go.json" not in names:
                    joined = self._joined(attempt, begins[attempt])
                    waiting.news()
                    continue
            elif joined is not None and ("go.json" in names or not listed):
                boots = self._read(joined.attempt, "go.json").get("boots")
                if isinstance(boots, list) and self.boot in boots:
                    return joined
            waiting.pause(self._awaited(attempt, names, joined))

    def _awaited(self, attempt: Attempt | None, names: set[str], joined: Restored | None) -> str:
        """What a node waits for that has done its part."""
        if attempt is not None and "go.json" in names:
            return (
                f"node 0 to begin a new attempt: {attempt} has gone on with an earlier start of "
                f"node {self.start.node}"
            )
        if joined is not None and joined.attempt == attempt:
            return f"node 0 to go on with {attempt}: other nodes are not ready"
        return "node 0 to begin a new attempt"

    def _newest(self, begins: dict[Attempt, dict[str, Any]]) -> tuple[Attempt | None, set[str]]:
        """The newest attempt of this start, and the names of its documents; `begins` are those already read.

        Raises `ConfigError` if node 0 was refused.
        """
        for attempt, names in islice(self._attempts(), _MOST_ATTEMPTS):
            if not begins.get(attempt) and "begin.json" in names:
                begins[attempt] = self._read(attempt, "begin.json")
            begin = begins.get(attempt, {})
            if (begin.get("job"), begin.get("start")) != (self.start.job, self.start.start):
                continue
            refused = begin if "refused" in begin and not self.start.take_over else {}
            if "withdrawn.json" in names:
                refused = self._read(attempt, "withdrawn.json")
            if "refused" in refused:
                raise ConfigError(str(refused["refused"]))
            if "refused" not in begin and begin.get("nodes") == self.start.nodes and "end.json" not in names:
                return attempt, names
        return None, set()

    def _joined(self, attempt: Attempt, begin: dict[str, Any]) -> Restored:
        """Puts the attempt's set in place and says so."""
        problem, fetched = "", (0, 0)
        chosen: CheckpointSet | None = None
        try:
            parts = begin.get("set")
            if isinstance(parts, list) and parts:
                chosen = whole_set([read_part(part) for part in parts])
            fetched = self._restore(attempt, chosen)
        except CheckpointDamaged as error:
            problem = str(error)
            self.say(f"{chosen.name if chosen else 'the set'} is damaged in the store: {problem}")
        answer = {"node": self.start.node, "boot": self.boot, "problem": problem}
        self._write(attempt, f"ready-{self.start.node:05}-{self.boot}.json", answer)
        return Restored(attempt, chosen, *fetched)

    @contextmanager
    def _signs_of_life(self, attempt: Attempt) -> Iterator[None]:
        """Shows the other nodes, while the block runs, that this one still fetches."""
        if self.start.nodes == 1:
            yield
            return
        done = threading.Event()

        def show() -> None:
            before = ""
            for number in count():
                if done.wait(min(SIGN_SECONDS, self.timeout / 4)):
                    return
                name = f"sign-{self.start.node:05}-{self.boot}-{number}.json"
                with suppress(PathMappingError):  # the next one may arrive
                    self._write(attempt, name, {})
                    if before:
                        self.documents.delete(self.place.of_attempt(attempt, before))
                    before = name

        thread = threading.Thread(target=show, name="signs of life", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()

    def _attempts(self) -> Iterator[tuple[Attempt, set[str]]]:
        """The attempts with the names of their documents, the newest first; a page is read when needed."""
        documents = filter(None, map(self.place.attempt_of, self.documents.keys(self.place.attempts)))
        for attempt, group in groupby(documents, key=lambda document: document[0]):
            yield attempt, {name for _, name in group}

    def _names(self, attempt: Attempt) -> set[str]:
        keys = self.documents.keys(self.place.of_attempt(attempt, ""))
        return {document[1] for document in map(self.place.attempt_of, keys) if document is not None}

    def _read(self, attempt: Attempt, name: str) -> dict[str, Any]:
        """A document of an attempt; empty if there is none, or it is damaged."""
        document = self.documents.read(self.place.of_attempt(attempt, name))
        return document if isinstance(document, dict) else {}

    def _write(self, attempt: Attempt, name: str, document: dict[str, object]) -> None:
        whose = {"job": self.start.job, "start": self.start.start}
        self.documents.write(self.place.of_attempt(attempt, name), {**whose, **document})


def write_end(documents: Documents, attempt: Attempt) -> None:
    """Notes that an attempt has ended, so that another job may use its place; a failure only costs that."""
    at_once = Documents(RetriedStore(documents.to.store, patience=RetryPolicy(5.0)), documents.place)
    with suppress(PathMappingError):
        at_once.write(documents.place.of_attempt(attempt, "end.json"), {})


class _Waiting:
    """The pauses between looks, which grow; a line every half minute, and an end without news."""

    def __init__(self, documents: Documents, timeout: float, say: Callable[[str], None]) -> None:
        self._documents, self._timeout, self._say = documents, timeout, say
        self._reminded = time.monotonic()
        self._names: set[str] = set()
        self._listed = -math.inf
        self.news()

    def may_list(self, nodes: int) -> bool:
        """Whether it is time for another listing, if so many nodes make one each."""
        now, pages = time.monotonic(), 1 + len(self._names) // 1000
        if now < self._listed + nodes * pages / LISTINGS_A_SECOND:
            return False
        self._listed = now
        return True

    def note(self, names: set[str]) -> None:
        """Takes note of the names of the documents: a new one is news."""
        if names - self._names:
            self.news()
        self._names = names

    def news(self) -> None:
        """Something has happened."""
        self._since = time.monotonic()
        self._pause = LOOK_SECONDS[0]

    def pause(self, what: str) -> None:
        """Sleeps before the next look for `what`; raises `NodesLate` and `Cancelled`."""
        now = time.monotonic()
        if now - self._since > self._timeout:
            seconds = f"{self._timeout:.0f}"
            raise NodesLate(Message.of("checkpoints: waited for {} s for {}, without news", seconds, what))
        if now - self._reminded >= REMIND_SECONDS:
            self._say(f"waiting for {what}, for {now - self._since:.0f} s without news")
            self._reminded = now
        if self._documents.to.cancel.wait(self._pause):
            raise Cancelled
        self._pause = min(self._pause * 1.5, LOOK_SECONDS[1])
