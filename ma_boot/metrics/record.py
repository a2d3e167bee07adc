"""A sample of what ranks, cards and the machine do, and the event of two samples."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ma_boot.metrics.progress import Reading

MIB = 1 << 20
MB = 1e6


class RankUsage(NamedTuple):
    """A process with all that it has started: CPU seconds and bytes since its start, memory in bytes now.

    `read` and `written` are bytes that came from storage or went there; None where the kernel hides them.
    """

    cpu: float
    rss: int
    threads: int
    read: Optional[int] = None
    written: Optional[int] = None


class RankSample(NamedTuple):
    """A rank, or a process that has none, by its label; `usage` is None once it has ended."""

    label: str
    rank: Optional[int]
    usage: Optional[RankUsage]
    reading: Reading


class CardSample(NamedTuple):
    """A card: percent, MiB, degrees Celsius, W; None for what its tool does not say.

    `card` counts the cards of this container, `memory_activity` is the percentage of time in which the card's
    memory was read or written.
    """

    card: int
    utilisation: Optional[float] = None
    memory: Optional[int] = None
    memory_total: Optional[int] = None
    temperature: Optional[float] = None
    power: Optional[float] = None
    health: Optional[str] = None
    link: Optional[str] = None
    memory_activity: Optional[float] = None


class HostSample(NamedTuple):
    """The machine: CPU seconds and network bytes since its start; bytes used and in all."""

    cpu: Optional[float]
    cores: int
    memory: Optional[Tuple[int, int]]
    disks: Mapping[str, Tuple[int, int]]
    received: Optional[int]
    sent: Optional[int]


class Sample(NamedTuple):
    """What was seen at a moment (monotonic, seconds); `kind` is `npu` or `gpu`, empty without cards."""

    at: float
    ranks: Tuple[RankSample, ...]
    host: HostSample
    kind: str = ""
    cards: Tuple[CardSample, ...] = ()


Column = List[Union[int, float, str, None]]


def event_of(before: Sample, now: Sample) -> Dict[str, Any]:
    """The fields of an event `metrics` (docs/metrics.md); rates are means since `before`."""
    seconds = max(now.at - before.at, 1e-3)
    fields: Dict[str, Any] = {"seconds": round(seconds, 1)}
    if now.ranks:
        fields["ranks"] = _ranks(before, now, seconds)
    if now.cards:
        columns = (*CardSample._fields[1:-1],)
        cards = {name: [getattr(card, name) for card in now.cards] for name in columns}
        fields["cards"] = {
            "card": [card.card for card in now.cards], "kind": now.kind, **_without_empty(cards)
        }  # fmt: skip
    fields["host"] = _host(before.host, now.host, seconds)
    return fields


def _ranks(before: Sample, now: Sample, seconds: float) -> Dict[str, Any]:
    earlier = {one.label: one.usage for one in before.ranks}
    nothing = RankUsage(0.0, 0, 0, 0, 0)  # what a rank has used before it was seen for the first time

    def rate(of: Callable[[RankUsage], Optional[float]], unit: float, digits: int) -> Column:
        return [
            _rate(_of(earlier.get(one.label, nothing), of), _of(one.usage, of), seconds, unit, digits)
            for one in now.ranks
        ]

    columns: Dict[str, Column] = {
        "cpu": rate(lambda usage: usage.cpu, 1, 2),
        "rss": [None if one.usage is None else one.usage.rss // MIB for one in now.ranks],
        "threads": [None if one.usage is None else one.usage.threads for one in now.ranks],
        "read": rate(lambda usage: usage.read, MB, 1),
        "written": rate(lambda usage: usage.written, MB, 1),
        "step": [one.reading.step for one in now.ranks],
        "step_time": [_rounded(one.reading.step_time) for one in now.ranks],
        "loss": [_rounded(one.reading.loss) for one in now.ranks],
    }
    names = sorted({name for one in now.ranks for name in one.reading.values})
    values = {name: [_rounded(one.reading.values.get(name)) for one in now.ranks] for name in names}
    return {
        "rank": [one.label if one.rank is None else one.rank for one in now.ranks],
        **_without_empty(columns),
        **({"values": values} if values else {}),
    }


def _host(before: HostSample, now: HostSample, seconds: float) -> Dict[str, Any]:
    fields: Dict[str, Any] = {
        "cpu": _rate(before.cpu, now.cpu, seconds, 1, 1),
        "cores": now.cores,
        "memory": None if now.memory is None else [size // MIB for size in now.memory],
        "disks": {path: [size // MIB for size in sizes] for path, sizes in now.disks.items()} or None,
        "received": _rate(before.received, now.received, seconds, MB, 1),
        "sent": _rate(before.sent, now.sent, seconds, MB, 1),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _of(usage: Optional[RankUsage], field: Callable[[RankUsage], Optional[float]]) -> Optional[float]:
    return None if usage is None else field(usage)


def _rate(
    before: Optional[float], now: Optional[float], seconds: float, unit: float, digits: int
) -> Optional[float]:
    if now is None or before is None:
        return None
    return round(max(0.0, now - before) / seconds / unit, digits)


def _rounded(value: Optional[float]) -> Optional[float]:
    """With five significant digits; None for what JSON has no number for."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None


def _without_empty(columns: Mapping[str, Sequence[Any]]) -> Dict[str, Any]:
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}
