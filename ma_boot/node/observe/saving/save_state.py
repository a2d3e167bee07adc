"""State of the requests for checkpoints on one node, turn by turn. Pure.

A request has one of two reasons: the user's file `save` in the directory of the logs, on any node, or the
job's time limit, which node 0 watches for all. The nodes then agree on a call (`SaveAgreement`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.observe.saving.save_agreement import AHEAD_SECONDS, ASK_SECONDS, SaveAgreement

# Seconds between two turns.
POLL_SECONDS = 1.0
# Turns of which the highest calls are kept: the progress of the ranks during AHEAD_SECONDS.
_KEPT_TURNS = round(AHEAD_SECONDS / POLL_SECONDS)
# Seconds before the time limit, but at most a tenth of it, at which a checkpoint is requested.
MARGIN_SECONDS = 600.0
# Seconds; of a limit below 200 s a tenth is too late: several nodes save at a step that is up to
# AHEAD_SECONDS later, and their agreement and the save take time, too.
LEAST_MARGIN_SECONDS = 2 * AHEAD_SECONDS
# Largest share of the limit for the margin: a step is ahead by no longer than the ranks have been running.
MOST_OF_LIMIT = 2 / 3


def due_before(time_limit: float) -> float:
    """Returns the moment of the request before a time limit, infinity for a limit of 0.

    Both are seconds since the start of this process.
    """
    if not time_limit:
        return math.inf
    least = min(LEAST_MARGIN_SECONDS, time_limit * MOST_OF_LIMIT)
    return time_limit - max(least, min(MARGIN_SECONDS, time_limit / 10))


class SaveRequest(NamedTuple):
    """The reason for a checkpoint, empty without one; `by_file` if it is the user's file."""

    reason: str = ""
    by_file: bool = False


class Announcement(NamedTuple):
    """The outcome of a request, once: the call at which the ranks save, or 0 and the problem."""

    call: int
    reason: str
    text: str


class SaveState(NamedTuple):
    """State after a turn; `agreement.answers`, `agreement.messages` and the following are its results.

    `announcement` is to be reported; `removes_file` tells that the user's file is answered.

    `due` is the moment of the request before the time limit, in seconds since the start of this process;
    `file_call` the call that the file has requested, 0 without one; `calls` are the highest calls at the last
    turns, the oldest first; `problem` is the one that was announced last.
    """

    agreement: SaveAgreement
    due: float = math.inf
    file_call: int = 0
    calls: tuple[int, ...] = ()
    problem: str = ""
    announcement: Announcement | None = None
    removes_file: bool = False

    def after(
        self, request: SaveRequest, messages: Iterable[PeerMessage], highest: int, now: float
    ) -> SaveState:
        """Makes a turn, with the `messages` of the peers since the last one.

        `highest` is the highest call of the ranks of this node, `now` a monotonic time in seconds.
        """
        calls = (*self.calls, highest)[-_KEPT_TURNS:]
        # Ranks of other nodes may be ahead by the calls that this node makes in AHEAD_SECONDS.
        ahead = highest - calls[0] if self.agreement.nodes > 1 else 0
        soonest = highest + ahead + 1
        agreement = self.agreement._replace(messages=frozenset())
        if request.reason:
            agreement = agreement.wanted(highest)
        for message in messages:
            agreement = agreement.received(message.node, message.body, highest, soonest)
        agreement = agreement.turn(highest, soonest, now)
        state = self._replace(agreement=agreement, calls=calls)
        return state._announcing(request, is_new=agreement.saves != self.agreement.saves)._settling(request)

    def file_gone(self) -> SaveState:
        """The state after the user's file was removed: a new one is a new request."""
        return self._replace(file_call=0)

    def _announcing(self, request: SaveRequest, is_new: bool) -> SaveState:
        """Announces a new call, or a new problem."""
        agreement, problem = self.agreement, self._problem(request)
        if is_new:
            asking = "node 0" if agreement.node else "another node"
            reason = request.reason or f"{asking} asks for a checkpoint"
            call = agreement.saves[-1]
            text = f"the ranks are asked to save at their step {call}"
            return self._replace(problem="", announcement=Announcement(call, reason, text))
        if problem and problem != self.problem:
            return self._replace(problem=problem, announcement=Announcement(0, request.reason, problem))
        return self._replace(announcement=None)

    def _settling(self, request: SaveRequest) -> SaveState:
        """Takes note of a request that is agreed, and of a file whose call was made."""
        state = self
        if request.reason and self.agreement.wanted_at is None:
            if request.by_file:
                state = self._replace(file_call=self.agreement.saves[-1])
            else:
                state = self._replace(due=math.inf)
        return state._replace(removes_file=0 < state.file_call <= state.calls[-1])

    def _problem(self, request: SaveRequest) -> str:
        """The reason why no rank is asked, or why one waits; empty if all is well."""
        agreement, first = self.agreement, self.calls[0]
        if agreement.asked and agreement.asked == first and len(self.calls) == _KEPT_TURNS:
            return f"ranks wait at their step {first} for the decision of node 0"
        if agreement.silent >= 0:
            return (
                f"node {agreement.silent} has not answered in {ASK_SECONDS:.0f} s: no rank is asked to save"
            )
        if request.reason and not self.calls[-1]:
            return "no rank has called ma_boot.training.should_save() yet"
        return ""
