"""A sample of what ranks, cards and the machine do, and the event of two samples. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import (
    Any,
    Callable,
    NamedTuple,
    Union,
)

from ma_boot.node.observe.progress import Reading

MIB = 1 << 20
MB = 1e6


class RankUsage(NamedTuple):
    """A process with all that it has started: CPU seconds and bytes since its start, memory in bytes now.

    `read` and `written` are bytes that came from storage or went there; None where the kernel hides them.
    """

    cpu: float
    rss: int
    threads: int
    read: int | None = None
    written: int | None = None


class RankSample(NamedTuple):
    """A rank, or a process that has none, by its label; `usage` is None once it has ended."""

    label: str
    rank: int | None
    usage: RankUsage | None
    reading: Reading


class CardSample(NamedTuple):
    """A card: percent, MiB, degrees Celsius, W; None for what its tool does not say.

    `card` counts the cards of this container, `memory_activity` is the percentage of time in which the card's
    memory was read or written.
    """

    card: int
    utilisation: float | None = None
    memory: int | None = None
    memory_total: int | None = None
    temperature: float | None = None
    power: float | None = None
    health: str | None = None
    link: str | None = None
    memory_activity: float | None = None


class HostSample(NamedTuple):
    """The machine: CPU seconds and network bytes since its start; bytes used and in all."""

    cpu: float | None = None
    cores: int = 1
    memory: tuple[int, int] | None = None
    disks: Mapping[str, tuple[int, int]] = MappingProxyType({})
    received: int | None = None
    sent: int | None = None


class Sample(NamedTuple):
    """What was seen at a moment (monotonic, seconds); `kind` is `npu` or `gpu`, empty without cards."""

    at: float
    ranks: tuple[RankSample, ...]
    host: HostSample
    kind: str = ""
    cards: tuple[CardSample, ...] = ()


Column = list[Union[int, float, str, None]]


def event_of(before: Sample, now: Sample) -> dict[str, Any]:
    """The fields of an event `metrics` (docs/metrics.md); rates are means since `before`."""
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
    nothing = RankUsage(0.0, 0, 0, 0, 0)  # what a rank has used before it was seen for the first time

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
    """With five significant digits; None for what JSON has no number for."""
    return float(f"{value:.5g}") if value is not None and math.isfinite(value) else None


def _without_empty(columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Value = Union[int, float, None]
Samples = list[tuple[Mapping[str, str], Value]]  # by their labels

_OF_RANK: tuple[tuple[str, str, Callable[[RankSample], Value]], ...] = (
    ("rank_running", "1 while its process runs.", lambda rank: int(rank.usage is not None)),
    ("rank_step", "The last step that it has printed.", lambda rank: rank.reading.step),
    ("rank_step_seconds", "The duration of a step.", lambda rank: rank.reading.step_time),
    ("rank_loss", "The last loss that it has printed.", lambda rank: rank.reading.loss),
)
_OF_USAGE: tuple[tuple[str, str, Callable[[RankUsage], Value]], ...] = (
    ("rank_cpu_seconds_total", "CPU time", lambda usage: usage.cpu),
    ("rank_resident_memory_bytes", "Resident memory", lambda usage: usage.rss),
    ("rank_threads", "Threads", lambda usage: usage.threads),
    ("rank_read_bytes_total", "Bytes read from storage", lambda usage: usage.read),
    ("rank_written_bytes_total", "Bytes written to storage", lambda usage: usage.written),
)
_OF_CARD: tuple[tuple[str, str, Callable[[CardSample], Value]], ...] = (
    ("card_utilisation_ratio", "Utilisation, 0 to 1.", lambda card: _times(card.utilisation, 0.01)),
    ("card_memory_used_bytes", "Memory in use.", lambda card: _times(card.memory, MIB)),
    ("card_memory_bytes", "Memory in all.", lambda card: _times(card.memory_total, MIB)),
    ("card_temperature_celsius", "Temperature.", lambda card: card.temperature),
    ("card_power_watts", "Power.", lambda card: card.power),
    ("card_healthy", "1 if the health is OK.", lambda card: _is(card.health, "OK")),
    (
        "card_link_up",
        "1 if the network link is up, 0 if it is down.",
        lambda card: _is(card.link, "UP", "DOWN"),
    ),
)
_OF_HOST: tuple[tuple[str, str, Callable[[HostSample], Value]], ...] = (
    ("node_cpu_seconds_total", "CPU time of the whole machine.", lambda host: host.cpu),
    ("node_cores", "Cores of the machine.", lambda host: host.cores),
    ("node_memory_used_bytes", "Memory in use.", lambda host: host.memory[0] if host.memory else None),
    ("node_memory_bytes", "Memory of the machine, or the container's limit.",
     lambda host: host.memory[1] if host.memory else None),
    ("node_received_bytes_total", "Bytes received from the network.", lambda host: host.received),
    ("node_sent_bytes_total", "Bytes sent to the network.", lambda host: host.sent),
)  # fmt: skip


def exposition(
    sample: Sample, node: int, slow: Collection[int] = (), spent: Mapping[str, float] = MappingProxyType({})
) -> str:
    """All metrics of a node; those that are unknown are left out.

    `slow` are the ranks that were named, `spent` are the seconds of the node by what they went for.
    """
    lines: list[str] = []
    for name, text, samples in (*_rank_metrics(sample.ranks, slow), *_machine(sample), _spent(spent)):
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP ma_boot_{name} {text}", f"# TYPE ma_boot_{name} {kind}"]
        for labels, value in known:
            every = {"node": str(node), **labels}
            pairs = ",".join(f'{label}="{_escaped(of)}"' for label, of in every.items())
            lines.append(f"ma_boot_{name}{{{pairs}}} {_figure(value)}")
    return "\n".join(lines) + "\n"


def _rank_metrics(ranks: Collection[RankSample], slow: Collection[int]) -> Iterator[tuple[str, str, Samples]]:
    named = [({"rank": rank.label if rank.rank is None else str(rank.rank)}, rank) for rank in ranks]
    for name, text, of_usage in _OF_USAGE:
        used: Samples = [(labels, of_usage(rank.usage)) for labels, rank in named if rank.usage is not None]
        yield name, f"{text} of a rank with all that it has started.", used
    for name, text, of_rank in _OF_RANK:
        yield name, text, [(labels, of_rank(rank)) for labels, rank in named]
    are_slow: Samples = [(labels, int(rank.rank in slow)) for labels, rank in named]
    yield "rank_slow", "1 while it is slower than the others.", are_slow
    values: Samples = [
        ({**labels, "name": name}, value)
        for labels, rank in named
        for name, value in rank.reading.values.items()
    ]
    yield "rank_value", "What a pattern of the user has found last.", values


def _machine(sample: Sample) -> Iterator[tuple[str, str, Samples]]:
    cards = [({"card": str(card.card), "kind": sample.kind}, card) for card in sample.cards]
    for name, text, of_card in _OF_CARD:
        yield name, text, [(labels, of_card(card)) for labels, card in cards]
    for name, text, of_host in _OF_HOST:
        yield name, text, [({}, of_host(sample.host))]
    disks = [({"path": path}, used, size) for path, (used, size) in sample.host.disks.items()]
    yield "node_disk_used_bytes", "Space in use of a file system.", [(path, used) for path, used, _ in disks]
    yield "node_disk_bytes", "Size of a file system.", [(path, size) for path, _, size in disks]


def _spent(spent: Mapping[str, float]) -> tuple[str, str, Samples]:
    parts: Samples = [({"part": part}, round(seconds, 3)) for part, seconds in spent.items()]
    return "node_spent_seconds", "Where the node's time went; counted: into the final state.", parts


def _times(value: float | None, factor: float) -> Value:
    return None if value is None else value * factor


def _is(text: str | None, yes: str, no: str = "") -> Value:
    """1 for `yes`, 0 for `no`, or for everything else if that is empty."""
    return None if text is None or (no and text not in (yes, no)) else int(text == yes)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _figure(value: Value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(value)
