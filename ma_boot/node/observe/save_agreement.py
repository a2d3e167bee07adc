"""How the nodes of a job agree on the call of `should_save` that is True in all ranks. Pure.

Messages, the clock and the highest call of the node's ranks go in; what the node tells, and the answers that
its ranks read, come out. A rank that comes to a call in doubt waits, so no two ranks can answer differently.

    node k    wanted    somebody asks for a checkpoint there
    node 0    ask       for a later call: its own ranks wait at it from now on
    node k    ready     no rank has made the call yet, and all will wait at it; told again until it is decided
    node k    late      a rank has made it already: the call that would not be too late
    node 0    yes       all are ready
    node 0    no        one is late, or has not answered in time
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

AHEAD_SECONDS = 10.0  # how far the call is ahead of the ranks: they hardly ever wait
ASK_SECONDS = 10.0  # for all nodes to be ready
PAUSE_SECONDS = 30.0  # after a node has not answered
HIGHEST_CALL = 1 << 62


class SaveAgreement(NamedTuple):
    """What node `node` of `nodes` knows in an attempt; each method returns the next value.

    `wanted_at` is the highest call when a checkpoint was wanted that is not agreed yet; `asked` the call in
    doubt, 0 if there is none; `saves` are the calls that are True. `until` is when node 0 ends the doubt, and
    then when it may ask again. `soonest` is the first call that is not too late for any node, as they have
    said, `silent` the node that has not answered, -1 if all did. `messages` is what to tell the others.
    """

    node: int = 0
    nodes: int = 1
    attempt: int = 1
    wanted_at: int | None = None
    asked: int = 0
    until: float = -math.inf
    ready: frozenset[int] = frozenset()
    soonest: int = 0
    silent: int = -1
    saves: tuple[int, ...] = ()
    messages: frozenset[tuple[str, int]] = frozenset()

    def wanted(self, highest: int) -> SaveAgreement:
        """A checkpoint is wanted, after the highest call that a rank of the node has made."""
        if self.wanted_at is not None or self._last > highest:  # else one is coming
            return self
        return self._replace(wanted_at=highest)

    def received(self, node: int, body: Mapping[str, object], highest: int, soonest: int) -> SaveAgreement:
        """After a message of another node; one of another attempt, or not in its place, changes nothing.

        `soonest` is the first call for which this node can be asked.
        """
        word, call = body.get("word"), body.get("call")
        if body.get("attempt") != self.attempt or not isinstance(call, int) or not isinstance(word, str):
            return self
        if not 0 <= call < HIGHEST_CALL or node == self.node or not 0 <= node < self.nodes:
            return self
        if self.node:
            return self if node else self._received_of_first(word, call, highest, soonest)
        return self._received_of_other(node, word, call)

    def _received_of_first(self, word: str, call: int, highest: int, soonest: int) -> SaveAgreement:
        if word == "ask" and not self.asked and call > self._last:
            return self._replace(asked=call) if call > highest else self._telling("late", soonest)
        if word in ("yes", "no") and call == self.asked:
            return self._decided(word == "yes")
        return self

    def _received_of_other(self, node: int, word: str, call: int) -> SaveAgreement:
        if word == "wanted":
            return self.wanted(call)
        if word == "late" and call > self.asked > 0:
            return self._replace(soonest=call, until=-math.inf)._decided(False)
        if word == "ready" and call == self.asked:
            return self._replace(ready=self.ready | {node})
        if word == "ready":
            return self._telling("yes" if call in self.saves else "no", call)
        return self

    def turn(self, highest: int, soonest: int, now: float) -> SaveAgreement:
        """Goes on by the clock; to be called after the messages, again and again."""
        if self.node:
            if self.asked:
                return self._telling("ready", self.asked)
            return self if self.wanted_at is None else self._telling("wanted", self.wanted_at)
        state = self
        if not self.asked and self.wanted_at is not None and highest and now >= self.until:
            call = max(soonest, self.soonest)
            state = self._replace(asked=call, until=now + ASK_SECONDS, ready=frozenset((0,)))
        if not state.asked:
            return state
        missing = frozenset(range(self.nodes)) - state.ready
        if not missing:
            return state._decided(True)
        if now > state.until:
            return state._replace(until=now + PAUSE_SECONDS, silent=min(missing))._decided(False)
        return state._telling("ask", state.asked)

    @property
    def answers(self) -> tuple[int, ...]:
        """What ranks read: the calls that are True, and the negative of the one in doubt."""
        return (*self.saves, -self.asked) if self.asked else self.saves

    @property
    def _last(self) -> int:
        return self.saves[-1] if self.saves else 0

    def _decided(self, is_yes: bool) -> SaveAgreement:
        call = self.asked
        state = self if self.node else self._telling("yes" if is_yes else "no", call)
        if not is_yes:
            return state._replace(asked=0)
        return state._replace(asked=0, saves=(*self.saves, call), wanted_at=None, silent=-1)

    def _telling(self, word: str, call: int) -> SaveAgreement:
        return self._replace(messages=self.messages | {(word, call)})


def bodies(agreement: SaveAgreement) -> list[dict[str, Any]]:
    """The messages of kind `save` that the node tells."""
    attempt = agreement.attempt
    return [{"attempt": attempt, "word": word, "call": call} for word, call in sorted(agreement.messages)]
