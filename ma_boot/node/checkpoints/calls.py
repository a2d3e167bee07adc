"""Reads the calls of `ma_boot.training.checkpoint` by a node's ranks from the lines they wrote. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ma_boot.node.checkpoints.layouts.layout import EPOCH, HIGHEST

# Rank of a process that does not know its rank: none of the node's ranks has called.
_UNKNOWN_RANK = -1


class CallTimes(NamedTuple):
    """Times of the first and the last rank's newest call for a step.

    Nanoseconds of the clock that dates files: the files that a rank has saved are not younger than its call,
    and those of its next step are.
    """

    first: int
    last: int


# Times of calls without a time: later than any file.
ANY_TIME = CallTimes(HIGHEST * 10, HIGHEST * 10)


class Calls(NamedTuple):
    """Calls of `checkpoint` by all ranks of a node: `steps` has how often all ranks have called for a step.

    `silent` are the other steps, with the rank that has not called. `times` are those of all steps, or empty
    if one of them is unknown: a step without a time has no place in their order.
    """

    steps: Mapping[int, int]
    silent: Mapping[int, str]
    times: Mapping[int, CallTimes] = {}

    def times_of(self, number: int) -> CallTimes:
        """Returns the times of the calls for a step."""
        return self.times.get(number, ANY_TIME)


class _Call(NamedTuple):
    """A call: the number of the step, the rank, None for the whole node, and the time, None if unknown."""

    number: int
    rank: int | None
    time: int | None


def read_calls(texts: Iterable[str], ranks: Collection[int], root: str = "/") -> Calls | None:
    """Returns the calls by the ranks of a node for the output at `root`, a real path; None if there is none.

    Each text is what one process has written so far: a JSON object per line; any other line, such as one that
    was cut, is skipped. A step is complete when one process has called for the whole node, or each of its
    ranks. A call for a directory is meant for `root` if that is the directory, or contains it.
    """
    calls: dict[int, dict[int | None, list[int | None]]] = {}  # times, by step and rank
    lines = (line for text in texts for line in text.splitlines())
    for call in filter(None, (_read_call(line, ranks, root) for line in lines)):
        calls.setdefault(call.number, {}).setdefault(call.rank, []).append(call.time)
    steps, silent, times = {}, {}, {}
    for number, by_rank in calls.items():
        of_node = by_rank.get(None, [])
        together = min((len(by_rank.get(rank, [])) for rank in ranks), default=0)
        if of_node or together:
            steps[number] = len(of_node) + together
            last_calls = [*of_node[-1:], *(by_rank[rank][together - 1] for rank in ranks if together)]
            known_times = [time for time in last_calls if time is not None]
            if len(known_times) == len(last_calls):
                times[number] = CallTimes(min(known_times), max(known_times))
        else:
            missing: set[int] = set(ranks) - set(by_rank)
            silent[number] = f"rank {min(missing)} has not called checkpoint for it" if missing else ""
    return Calls(steps, silent, times if len(times) == len(steps) else {}) if calls else None


def _read_call(line: str, ranks: Collection[int], root: str) -> _Call | None:
    """Parses a line; returns None for any other line, and for calls for other outputs."""
    try:
        document = json.loads(line)
        step, epoch, rank = document["step"], document.get("epoch"), document.get("rank")
        number = int(step) if epoch is None else int(epoch) * EPOCH + int(step)
        time = document.get("time_ns")
        directory = document.get("directory")
        if directory is not None and not f"{directory}/".startswith(f"{root.rstrip('/')}/"):
            return None
        if document.get("node") is True:
            rank = None
        elif rank is None and len(ranks) == 1:
            (rank,) = ranks
        elif rank is None or int(rank) not in ranks:
            rank = _UNKNOWN_RANK
        rank = None if rank is None else int(rank)
        time = None if time is None else int(time)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return _Call(number, rank, time) if 0 <= number < HIGHEST else None
