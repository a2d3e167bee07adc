"""Samples of ranks, cards and the machine, and the event `metrics` of two samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Union

from ma_boot.node.observe.metrics.progress import Reading

MIB = 1 << 20
MB = 1e6


class RankUsage(NamedTuple):
    """Usage of a process and its descendants: CPU seconds and I/O since its start, memory in bytes now.

    `read` and `written` are bytes of storage, without the page cache; None where the kernel hides them.
    """

    cpu: float
    rss: int
    threads: int
    read: int | None = None
    written: int | None = None


class RankSample(NamedTuple):
    """Usage and output of a process; `rank` is None for one that is no rank, `usage` once it has ended."""

    label: str
    rank: int | None
    usage: RankUsage | None
    reading: Reading


class CardSample(NamedTuple):
    """A card, by its index in this container; None where its tool shows no value.

    Units: percent, MiB, degrees Celsius, W, MHz. `throttled` are the reasons for lower clocks, `nvlink` the
    links that are up, `ecc` the number of uncorrectable errors, `remapped` that of replaced rows of the
    memory, `xid` NVIDIA's number of the last error. `memory_activity` is the share of time, in percent, in
    which the card's memory was read or written.
    """

    card: int
    utilisation: float | None = None
    memory: int | None = None
    memory_total: int | None = None
    temperature: float | None = None
    power: float | None = None
    health: str | None = None
    link: str | None = None
    clock: int | None = None
    throttled: str | None = None
    nvlink: str | None = None
    ecc: int | None = None
    remapped: int | None = None
    xid: int | None = None
    memory_activity: float | None = None


class HostSample(NamedTuple):
    """The machine: CPU seconds and network bytes since its start; used and total bytes of its memories."""

    cpu: float | None = None
    cores: int = 1
    memory: tuple[int, int] | None = None
    disks: Mapping[str, tuple[int, int]] = MappingProxyType({})
    received: int | None = None
    sent: int | None = None


class Sample(NamedTuple):
    """All values at a moment (monotonic, seconds); `kind` is `npu` or `gpu`, empty without cards."""

    at: float
    ranks: tuple[RankSample, ...]
    host: HostSample
    kind: str = ""
    cards: tuple[CardSample, ...] = ()


Column = list[Union[int, float, str, None]]


def event_of(before: Sample, now: Sample) -> dict[str, Any]:
    """Returns the fields of an event `metrics` (docs/metrics.md); rates are means since `before`."""
    seconds = max(now.at - before.at, 1e-3)
    fields: dict[str, Any] = {"seconds": round(seconds, 1)}
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


def _ranks(before: Sample, now: Sample, seconds: float) -> dict[str, Any]:
    earlier = {sample.label: sample.usage for sample in before.ranks}
    # A rank that is new in this period has used all of its CPU time in it.
    nothing = RankUsage(0.0, 0, 0, read=0, written=0)

    def rate(of: Callable[[RankUsage], float | None], unit: float, digits: int) -> Column:
        return [
            _rate(_of(earlier.get(sample.label, nothing), of), _of(sample.usage, of), seconds, unit, digits)
            for sample in now.ranks
        ]

    columns: dict[str, Column] = {
        "cpu": rate(lambda usage: usage.cpu, 1, 2),
        "rss": [None if sample.usage is None else sample.usage.rss // MIB for sample in now.ranks],
        "threads": [None if sample.usage is None else sample.usage.threads for sample in now.ranks],
        "read": rate(lambda usage: usage.read, MB, 1),
        "written": rate(lambda usage: usage.written, MB, 1),
        "step": [sample.reading.step for sample in now.ranks],
        "step_time": [_rounded(sample.reading.step_time) for sample in now.ranks],
        "loss": [_rounded(sample.reading.loss) for sample in now.ranks],
    }
    names = sorted({name for sample in now.ranks for name in sample.reading.values})
    values = {name: [_rounded(sample.reading.values.get(name)) for sample in now.ranks] for name in names}
    return {
        "rank": [sample.label if sample.rank is None else sample.rank for sample in now.ranks],
        **_without_empty(columns),
        **({"values": values} if values else {}),
    }


def _host(before: HostSample, now: HostSample, seconds: float) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "cpu": _rate(before.cpu, now.cpu, seconds, 1, 1),
        "cores": now.cores,
        "memory": None if now.memory is None else [size // MIB for size in now.memory],
        "disks": {path: [size // MIB for size in sizes] for path, sizes in now.disks.items()} or None,
        "received": _rate(before.received, now.received, seconds, MB, 1),
        "sent": _rate(before.sent, now.sent, seconds, MB, 1),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _of(usage: RankUsage | None, field: Callable[[RankUsage], float | None]) -> float | None:
    return None if usage is None else field(usage)


def _rate(before: float | None, now: float | None, seconds: float, unit: float, digits: int) -> float | None:
    if now is None or before is None:
        return None
    return round(max(0.0, now - before) / seconds / unit, digits)


def _rounded(value: float | None) -> float | None:
    """Rounds to five significant digits; None for NaN and infinities, which JSON has not."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None


def _without_empty(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}
