"""Restarts of a whole job in place: every node stops its ranks, node 0 decides once, all start again or none.

Nobody starts attempt n + 1 before everybody has stopped attempt n. What cannot be agreed within the deadline
ends the job on every node, with the code of its cause: then the platform has to act.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

from ma_boot.reporting import Cause, readable


class AttemptEnd(NamedTuple):
    """What a node says when all its processes of an attempt are dead.

    `final` is why a restart would end in the same way, empty if it may not; `whole` the newest step that is
    known to count in OBS, empty if there is none.
    """

    attempt: int
    final: str = ""
    whole: str = ""


class Verdict(NamedTuple):
    """What node 0 decides after an attempt: whether all start again, and the rule by which."""

    attempt: int
    again: bool
    why: str


class Failed(NamedTuple):
    """What an attempt ended by: the cause as people and rules see it, and the newest set at that time."""

    words: str
    place: str
    whole: str


def decide(
    attempt: int,
    ends: Mapping[int, AttemptEnd],
    budget: int,
    cause: Optional[Cause],
    earlier: Sequence[Failed],
) -> Verdict:
    """Whether a job starts again after an attempt that all its nodes have stopped. Pure.

    `ends` is what each node says, `budget` how many restarts the job has, `earlier` what the attempts before
    ended by.
    """
    final = next((f"node {node}: {ends[node].final}" for node in sorted(ends) if ends[node].final), "")
    if final:
        return Verdict(attempt, False, final)
    if len(earlier) >= budget:
        times = "1 restart is" if budget == 1 else f"{budget} restarts are"
        return Verdict(attempt, False, f"the job's {times} used up")
    failed = failure_of(ends, cause)
    if cause is not None and failed in earlier:
        newer = "without a newer whole checkpoint" if failed.whole else "without a checkpoint"
        return Verdict(attempt, False, f"the same failure came twice {newer}")
    return Verdict(attempt, True, str(cause) if cause is not None else "the ranks hung")


def failure_of(ends: Mapping[int, AttemptEnd], cause: Optional[Cause]) -> Failed:
    """What an attempt ended by."""
    whole = max((end.whole for end in ends.values()), default="")
    return Failed(cause.words, cause.place, whole) if cause is not None else Failed("", "", whole)


def read_end(body: Mapping[str, object]) -> Optional[AttemptEnd]:
    """What another node says; None if it is not as `AttemptEnd` has it."""
    attempt, final, whole = body.get("attempt"), body.get("final"), body.get("whole")
    if isinstance(attempt, int) and isinstance(final, str) and isinstance(whole, str):
        return AttemptEnd(attempt, readable(final), readable(whole))
    return None


def read_verdict(body: Mapping[str, object]) -> Optional[Verdict]:
    """What node 0 has decided; None if it is not as `Verdict` has it."""
    attempt, again, why = body.get("attempt"), body.get("again"), body.get("why")
    if isinstance(attempt, int) and isinstance(again, bool) and isinstance(why, str):
        return Verdict(attempt, again, readable(why))
    return None
