"""The last sample in Prometheus' text format (version 0.0.4), in the units of its naming conventions."""

from __future__ import annotations

import math
from typing import Callable, Collection, Iterator, List, Mapping, Optional, Tuple, Union

from ma_boot.metrics.record import MIB, CardSample, HostSample, RankSample, RankUsage, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Value = Union[int, float, None]
Samples = List[Tuple[Mapping[str, str], Value]]  # by their labels

_OF_USAGE: Tuple[Tuple[str, str, Callable[[RankUsage], Value]], ...] = (
    ("rank_cpu_seconds_total", "CPU time", lambda usage: usage.cpu),
    ("rank_resident_memory_bytes", "Resident memory", lambda usage: usage.rss),
    ("rank_threads", "Threads", lambda usage: usage.threads),
    ("rank_read_bytes_total", "Bytes read from storage", lambda usage: usage.read),
    ("rank_written_bytes_total", "Bytes written to storage", lambda usage: usage.written),
)
_OF_CARD: Tuple[Tuple[str, str, Callable[[CardSample], Value]], ...] = (
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
_OF_HOST: Tuple[Tuple[str, str, Callable[[HostSample], Value]], ...] = (
    ("node_cpu_seconds_total", "CPU time of the whole machine.", lambda host: host.cpu),
    ("node_cores", "Cores of the machine.", lambda host: host.cores),
    ("node_memory_used_bytes", "Memory in use.", lambda host: host.memory[0] if host.memory else None),
    ("node_memory_bytes", "Memory of the machine, or the container's limit.",
     lambda host: host.memory[1] if host.memory else None),
    ("node_received_bytes_total", "Bytes received from the network.", lambda host: host.received),
    ("node_sent_bytes_total", "Bytes sent to the network.", lambda host: host.sent),
)  # fmt: skip


def exposition(sample: Sample, node: int, slow: Collection[int] = ()) -> str:
    """All metrics of a node; those that are unknown are left out. `slow` are the ranks that were named."""
    lines: List[str] = []
    for name, text, samples in (*_ranks(sample.ranks, slow), *_machine(sample)):
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP ma_boot_{name} {text}", f"# TYPE ma_boot_{name} {kind}"]
        for labels, value in known:
            every = {"node": str(node), **labels}
            pairs = ",".join(f'{label}="{_escaped(of)}"' for label, of in every.items())
            lines.append(f"ma_boot_{name}{{{pairs}}} {_figure(value)}")
    return "\n".join(lines) + "\n"


def _ranks(ranks: Collection[RankSample], slow: Collection[int]) -> Iterator[Tuple[str, str, Samples]]:
    named = [({"rank": one.label if one.rank is None else str(one.rank)}, one) for one in ranks]
    for name, text, of in _OF_USAGE:
        used: Samples = [(labels, of(one.usage)) for labels, one in named if one.usage is not None]
        yield name, f"{text} of a rank with all that it has started.", used

    def each(of: Callable[[RankSample], Value]) -> Samples:
        return [(labels, of(one)) for labels, one in named]

    yield "rank_running", "1 while its process runs.", each(lambda one: int(one.usage is not None))
    yield "rank_slow", "1 while it is slower than the others.", each(lambda one: int(one.rank in slow))
    yield "rank_step", "The last step that it has printed.", each(lambda one: one.reading.step)
    yield "rank_step_seconds", "The duration of a step.", each(lambda one: one.reading.step_time)
    yield "rank_loss", "The last loss that it has printed.", each(lambda one: one.reading.loss)
    values: Samples = [
        ({**labels, "name": name}, value)
        for labels, one in named
        for name, value in one.reading.values.items()
    ]
    yield "rank_value", "What a pattern of the user has found last.", values


def _machine(sample: Sample) -> Iterator[Tuple[str, str, Samples]]:
    for name, text, of_card in _OF_CARD:
        yield (
            name,
            text,
            [({"card": str(card.card), "kind": sample.kind}, of_card(card)) for card in sample.cards],
        )
    for name, text, of_host in _OF_HOST:
        yield name, text, [({}, of_host(sample.host))]
    for at, name in enumerate(("node_disk_used_bytes", "node_disk_bytes")):
        sizes: Samples = [({"path": path}, disk[at]) for path, disk in sample.host.disks.items()]
        yield name, ("Space in use of a file system.", "Size of a file system.")[at], sizes


def _times(value: Optional[float], factor: float) -> Value:
    return None if value is None else value * factor


def _is(text: Optional[str], yes: str, no: str = "") -> Value:
    """1 for `yes`, 0 for `no`, or for everything else if that is empty."""
    return None if text is None or (no and text not in (yes, no)) else int(text == yes)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _figure(value: Value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return repr(value)
