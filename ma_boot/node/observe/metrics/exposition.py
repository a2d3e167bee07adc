"""Prometheus metrics of a node's last sample (docs/metrics.md). Imported only with `--metrics-port`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Callable, NamedTuple, Union

from prometheus_client.core import Metric

from ma_boot.node.observe.metrics.record import MIB, CardSample, HostSample, RankSample, RankUsage, Sample
from ma_boot.redact import without_secrets

Value = Union[int, float, None]
# Values of one metric by their labels; None is unknown.
Figures = Iterable[tuple[Mapping[str, str], Value]]

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
    ("card_memory_bytes", "Total memory.", lambda card: _times(card.memory_total, MIB)),
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


class NodeState(NamedTuple):
    """Values to serve: a sample, the ranks that were named as slow, and the node's seconds by their use."""

    sample: Sample
    node: int
    slow: frozenset[int] = frozenset()
    spent: Mapping[str, float] = MappingProxyType({})


def metrics_of(state: NodeState) -> Iterator[Metric]:
    """All metrics of a node; unknown values, and metrics without a value, are left out."""
    for name, text, figures in _figures(state):
        known = [(labels, value) for labels, value in figures if value is not None]
        if not known:
            continue
        # The client library adds `_total` to the name of a counter.
        base, kind = name, "gauge"
        if name.endswith("_total"):
            base, kind = name[: -len("_total")], "counter"
        metric = Metric(f"ma_boot_{base}", text, kind)
        for labels, value in known:
            every = {"node": str(state.node), **labels}
            # A label may be a path or a name that the user chose.
            shown = {label: without_secrets(text) for label, text in every.items()}
            metric.add_sample(f"ma_boot_{name}", shown, value)
        yield metric


def _figures(state: NodeState) -> Iterator[tuple[str, str, Figures]]:
    yield from _of_ranks(state)
    yield from _of_machine(state.sample)
    parts = [({"part": part}, round(seconds, 3)) for part, seconds in state.spent.items()]
    yield "node_spent_seconds", "Where the node's time went; counted: into the final state.", parts


def _of_ranks(state: NodeState) -> Iterator[tuple[str, str, Figures]]:
    ranks = [
        ({"rank": rank.label if rank.rank is None else str(rank.rank)}, rank) for rank in state.sample.ranks
    ]
    running = [(labels, rank.usage) for labels, rank in ranks if rank.usage is not None]
    for name, text, of_usage in _OF_USAGE:
        text = f"{text} of a rank, with its descendants."
        yield name, text, [(labels, of_usage(usage)) for labels, usage in running]
    for name, text, of_rank in _OF_RANK:
        yield name, text, [(labels, of_rank(rank)) for labels, rank in ranks]
    slow = [(labels, int(rank.rank in state.slow)) for labels, rank in ranks]
    yield "rank_slow", "1 while it is slower than the others.", slow
    values = [
        ({**labels, "name": name}, value)
        for labels, rank in ranks
        for name, value in rank.reading.values.items()
    ]
    yield "rank_value", "The last value of a pattern of the user.", values


def _of_machine(sample: Sample) -> Iterator[tuple[str, str, Figures]]:
    cards = [({"card": str(card.card), "kind": sample.kind}, card) for card in sample.cards]
    for name, text, of_card in _OF_CARD:
        yield name, text, [(labels, of_card(card)) for labels, card in cards]
    for name, text, of_host in _OF_HOST:
        yield name, text, [({}, of_host(sample.host))]
    disks = [({"path": path}, used, size) for path, (used, size) in sample.host.disks.items()]
    yield "node_disk_used_bytes", "Space in use of a file system.", [(path, used) for path, used, _ in disks]
    yield "node_disk_bytes", "Size of a file system.", [(path, size) for path, _, size in disks]


def _times(value: float | None, factor: float) -> Value:
    return None if value is None else value * factor


def _is(text: str | None, yes: str, no: str = "") -> Value:
    """1 for `yes`, 0 for `no`, or for everything else if that is empty."""
    return None if text is None or (no and text not in (yes, no)) else int(text == yes)
