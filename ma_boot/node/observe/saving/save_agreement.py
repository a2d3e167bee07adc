"""Protocol by which the nodes of a job agree on the call of `should_save` that is True in all ranks. Pure.

Its input are messages, the clock and the highest call of the node's ranks; its output are messages, and the
answers that the ranks read. A rank that comes to an undecided call waits, so no two ranks answer differently.

    sender    message   meaning
    node k    wanted    a checkpoint is requested on this node
    node 0    ask       proposes a later call; its own ranks wait at this call from now on
    node k    ready     no rank of the node has made the call, and all will wait at it; repeated until decided
    node k    late      a rank has already made the call; has the first call that is not too late
    node 0    yes       all nodes are ready: the call is True
    node 0    no        a node is late, or has not answered in time
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

# Seconds by which the proposed call is ahead of the ranks, so that they hardly ever wait at it.
AHEAD_SECONDS = 10.0
# Seconds; max. wait of node 0 for the answers of all nodes.
ASK_SECONDS = 10.0
# Seconds; pause of node 0 after a node has not answered.
PAUSE_SECONDS = 30.0
# Calls are written as signed numbers of 64 bits.
HIGHEST_CALL = 1 << 62


class SaveAgreement(NamedTuple):
    """State of node `node` of `nodes` in an attempt; each method returns the next state.

    `wanted_at` is the highest call at the time of a request that is not agreed yet; `asked` the undecided
    call, 0 without one; `saves` are the calls that are True. `until` is the time at which node 0 gives up the
    undecided call, and afterwards the time from which it may ask again. `soonest` is the first call that is
    not too late for any node that was late, `silent` the node that has not answered, -1 if all did.
    `messages` are to be sent to the peers.
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
        """Takes a request, with the highest call that a rank of the node has made."""
        # A call that is agreed, and not made yet, fulfils the request.
        if self.wanted_at is not None or self._last > highest:
            return self
        return self._replace(wanted_at=highest)

    def received(self, node: int, body: Mapping[str, object], highest: int, soonest: int) -> SaveAgreement:
        """Takes a message of a peer; invalid messages and those of other attempts change nothing.

        `soonest` is the first call that is not too late for this node.
        """
        word, call = body.get("word"), body.get("call")
        if body.get("attempt") != self.attempt or not isinstance(call, int) or not isinstance(word, str):
            return self
        if not 0 <= call < HIGHEST_CALL or node == self.node or not 0 <= node < self.nodes:
            return self
        # Followers listen to the leader only, the leader to all.
        if self.node:
            return self if node else self._received_of_leader(word, call, highest, soonest)
        return self._received_of_follower(node, word, call)

    def _received_of_leader(self, word: str, call: int, highest: int, soonest: int) -> SaveAgreement:
        if word == "ask" and not self.asked and call > self._last:
            return self._replace(asked=call) if call > highest else self._sending("late", soonest)
        if word in ("yes", "no") and call == self.asked:
            return self._decided(word == "yes")
        return self

    def _received_of_follower(self, node: int, word: str, call: int) -> SaveAgreement:
        if word == "wanted":
            return self.wanted(call)
        if word == "late" and call > self.asked > 0:
            return self._replace(soonest=call, until=-math.inf)._decided(False)
        if word == "ready" and call == self.asked:
            return self._replace(ready=self.ready | {node})
        if word == "ready":
            # The decision was lost on its way.
            return self._sending("yes" if call in self.saves else "no", call)
        return self

    def turn(self, highest: int, soonest: int, now: float) -> SaveAgreement:
        """Makes a step by the clock; to be called after the messages, and regularly."""
        if self.node:
            if self.asked:
                return self._sending("ready", self.asked)
            return self if self.wanted_at is None else self._sending("wanted", self.wanted_at)
        # The leader proposes a call, if a checkpoint is wanted and the ranks make calls.
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
        return state._sending("ask", state.asked)

    @property
    def answers(self) -> tuple[int, ...]:
        """The numbers that the ranks read: the calls that are True, and the negative of the undecided one."""
        return (*self.saves, -self.asked) if self.asked else self.saves

    @property
    def _last(self) -> int:
        return self.saves[-1] if self.saves else 0

    def _decided(self, is_yes: bool) -> SaveAgreement:
        call = self.asked
        state = self if self.node else self._sending("yes" if is_yes else "no", call)
        if not is_yes:
            return state._replace(asked=0)
        return state._replace(asked=0, saves=(*self.saves, call), wanted_at=None, silent=-1)

    def _sending(self, word: str, call: int) -> SaveAgreement:
        return self._replace(messages=self.messages | {(word, call)})


def bodies(agreement: SaveAgreement) -> list[dict[str, Any]]:
    """Returns the bodies of the messages of kind `save` to send."""
    attempt = agreement.attempt
    return [{"attempt": attempt, "word": word, "call": call} for word, call in sorted(agreement.messages)]
