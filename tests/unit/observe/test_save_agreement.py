"""All ranks of all nodes answer the same at the same call, whatever happens to messages; and one answers True."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from ma_boot.node.observe.saving.save_agreement import (
    ASK_SECONDS,
    PAUSE_SECONDS,
    SaveAgreement,
    bodies,
)
from ma_boot.training.save_request import answer

RANKS = 2
SCHEDULES, IN_ONE = 2000, 500


class SimulatedNodes:
    """Nodes whose messages wait in `sent` until they are delivered, as often as a schedule likes, or never.

    A turn of a node and a call of a rank exclude each other, as by the lock on the file.
    """

    def __init__(self, count: int) -> None:
        self.nodes = [SaveAgreement(node, count) for node in range(count)]
        # That a rank has made, by node and rank.
        self.calls = {(node, rank): 0 for node in range(count) for rank in range(RANKS)}
        self.answers: dict[int, bool] = {}  # by call
        self.differing: list[int] = []
        self.waiting: list[tuple[int, int]] = []
        self.sent: list[tuple[int, int, Mapping[str, Any]]] = []
        self.now = 0.0

    def highest(self, node: int) -> int:
        return max(call for (of, _), call in self.calls.items() if of == node)

    def call(self, number: int) -> None:
        """A rank makes its next call, or looks again whether the one at which it waits is still in doubt."""
        place = list(self.calls)[number % len(self.calls)]
        if place not in self.waiting:
            self.calls[place] += 1
            self.waiting.append(place)
        is_asked = answer(self.nodes[place[0]].answers, self.calls[place])
        if is_asked is None:
            return
        self.waiting.remove(place)
        if self.answers.setdefault(self.calls[place], is_asked) is not is_asked:
            self.differing.append(self.calls[place])

    def want(self, number: int) -> None:
        node = number % len(self.nodes)
        self.nodes[node] = self.nodes[node].wanted(self.highest(node))

    def turn(self, number: int, ahead: int) -> None:
        node = number % len(self.nodes)
        highest = self.highest(node)
        state = self.nodes[node].turn(highest, highest + ahead + 1, self.now)
        for body in bodies(state):
            others = range(1, len(self.nodes)) if node == 0 else (0,)
            self.sent.extend((node, other, body) for other in others)
        self.nodes[node] = state._replace(messages=frozenset())

    def deliver(self, number: int, again: bool, ahead: int) -> None:
        """In any order, also a second time."""
        if not self.sent:
            return
        at = number % len(self.sent)
        source, node, body = self.sent[at] if again else self.sent.pop(at)
        highest = self.highest(node)
        self.nodes[node] = self.nodes[node].received(source, body, highest, highest + ahead + 1)

    def lose(self, number: int) -> None:
        if self.sent:
            del self.sent[number % len(self.sent)]

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def end(self) -> None:
        """Once messages arrive, nobody waits, and what is wanted is saved by all, at one call."""
        self.want(0)
        already = len(self.nodes[0].saves)
        is_open = self.nodes[0].wanted_at is not None
        for _ in range(60):
            self.now += 1 + PAUSE_SECONDS / 20
            for number in range(len(self.calls)):
                self.call(number)
            for node in range(len(self.nodes)):
                self.turn(node, 2)
            while self.sent:
                self.deliver(0, False, 2)
        for number in range(len(self.calls)):
            self.call(number)
        assert self.differing == []
        assert len(self.nodes[0].saves) > already or not is_open
        assert {node.saves for node in self.nodes} == {self.nodes[0].saves}
        assert all(self.answers.get(save, True) for save in self.nodes[0].saves)


@pytest.mark.parametrize("first", range(0, SCHEDULES, IN_ONE))
def test_ranks_answer_alike_in_every_schedule(first: int) -> None:
    """Many calls, and decisions that are lost."""
    for seed in range(first, first + IN_ONE):
        chance = random.Random(seed)
        job = SimulatedNodes(chance.choice([1, 2, 2, 3, 4]))
        lost = chance.choice([0.0, 0.3, 0.7])
        for _ in range(120):
            number, ahead = chance.randrange(10**6), chance.randrange(3)
            if chance.random() < 0.5:
                job.call(number)
            elif chance.random() < 0.5:
                job.turn(number, ahead)
            elif chance.random() < 0.6:
                job.lose(number) if chance.random() < lost else job.deliver(number, number % 5 == 0, ahead)
            elif chance.random() < 0.7:
                job.want(number)
            else:
                job.wait(chance.choice([1.0, ASK_SECONDS + 1]))
        assert job.differing == [], f"seed {seed}"
        job.end()


def test_invalid_messages_are_ignored() -> None:
    for node in (0, 1):
        state = SaveAgreement(node, 2)._replace(asked=5, until=9.0, ready=frozenset((0,)))
        bodies: list[dict[str, object]] = [
            {}, {"attempt": 2, "word": "yes", "call": 5}, {"attempt": 1, "word": "yes", "call": "5"},
            {"attempt": 1, "word": "yes", "call": 1 << 63}, {"attempt": 1, "word": None, "call": 5},
            {"attempt": 1, "word": "save", "call": 5},
        ]  # fmt: skip
        for body in bodies:
            assert state.received(1 - node, body, 3, 4) == state
            assert state.received(2, body, 3, 4) == state


def test_a_silent_node_ends_the_undecided_call_and_is_named() -> None:
    asking = SaveAgreement(0, 3).wanted(4).turn(4, 7, 0.0)
    asking = asking.received(1, {"attempt": 1, "word": "ready", "call": 7}, 4, 7)
    assert asking.answers == (-7,)
    ended = asking.turn(5, 8, ASK_SECONDS + 0.1)
    assert (ended.answers, ended.silent) == ((), 2)
    assert ended.turn(5, 8, ASK_SECONDS + 1).asked == 0, "it asks again only after a while"
    assert ended.turn(9, 12, ASK_SECONDS + PAUSE_SECONDS + 1).asked == 12
