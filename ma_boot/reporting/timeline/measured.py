"""What was measured of a running job, and the stacks of a hang, from their events. Pure."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ma_boot.reporting.timeline.events import Event, whole, words
from ma_boot.reporting.timeline.job_timeline import HangStacks, Measurement, StackGroup

MOST_GROUPS = 64
MOST_STACK = 4000  # characters
_OF_CARDS = ("utilisation", "memory", "temperature", "power")
_OF_RANKS = ("step_time", "loss", "cpu", "rss", "threads", "read", "written")

Table = Mapping[str, Mapping[str, float]]


def hang_stacks(at: float, event: Event) -> HangStacks:
    """The folded stacks of an event, whatever it has."""
    folded, suspect = event.get("folded"), event.get("suspect")
    groups = (
        [_group(one) for one in folded[:MOST_GROUPS] if isinstance(one, dict)]
        if isinstance(folded, list)
        else []
    )
    named = suspect if isinstance(suspect, dict) else {}
    return HangStacks(at, tuple(groups), _who(named), words(named, "why", 600))


def job_cause(event: Event) -> str:
    """Who ended the whole job, and how: `node 3, rank 27: ValueError: ...`; empty if unknown."""
    cause = _object(event, "cause")
    who, code = _who(cause), whole(cause, "code", 255)
    said = words(cause, "words") or ("" if code is None else f"exit code {code}")
    return f"{who}: {said}" if who and said else ""


def _who(named: Event) -> str:
    """`node 3, rank 27`, as far as it is known."""
    parts = ((name, whole(named, name)) for name in ("node", "rank"))
    return ", ".join(f"{name} {number}" for name, number in parts if number is not None)


def _group(one: Mapping[str, Any]) -> StackGroup:
    ranks = one.get("ranks")
    known = [rank for rank in ranks if _is_rank(rank)] if isinstance(ranks, list) else []
    return StackGroup(tuple(known), words(one, "stack", MOST_STACK))


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000_000


def sample(at: float, event: Event) -> Measurement:
    """The figures of an event by metric, without those that are unknown."""
    ranks, cards, host = (_object(event, name) for name in ("ranks", "cards", "host"))
    further = _object(ranks, "values")
    columns = {
        **{name: ranks.get(name) for name in _OF_RANKS},
        **{str(n)[:40]: further[n] for n in list(further)[:8]},
    }
    return Measurement(
        at,
        _table(ranks.get("rank"), columns),
        _table(cards.get("card"), {name: cards.get(name) for name in _OF_CARDS}),
        _of_host(host),
    )


def _object(event: Event, name: str) -> Mapping[str, Any]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def _table(names: object, columns: Mapping[str, object]) -> Table:
    """The columns that have figures, each by the names of the rows."""
    if not isinstance(names, list):
        return {}
    rows = [str(name)[:40] for name in names]
    found: Dict[str, Dict[str, float]] = {}
    for metric, values in columns.items():
        if isinstance(values, list):
            known = {row: float(value) for row, value in zip(rows, values) if is_figure(value)}
            if known:
                found[metric] = known
    return found


def _of_host(host: Mapping[str, Any]) -> Table:
    """What the machine as a whole does; of memory and disks the used part."""
    found: Dict[str, Dict[str, float]] = {}
    for metric in ("cpu", "received", "sent"):
        if is_figure(host.get(metric)):
            found[metric] = {"": float(host[metric])}
    parts = {"memory": {"": host.get("memory")}, "disk": _object(host, "disks")}
    for metric, pairs in parts.items():
        known = {
            str(name)[:60]: float(pair[0])
            for name, pair in list(pairs.items())[:8]
            if isinstance(pair, list) and pair and is_figure(pair[0])
        }
        if known:
            found[metric] = known
    return found


def is_figure(value: object) -> bool:
    """Whether this is a number that can be drawn: not NaN, not infinite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15
