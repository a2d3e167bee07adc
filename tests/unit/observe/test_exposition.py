"""The metrics for Prometheus, formatted and parsed by its own library."""

from __future__ import annotations

import math
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from ma_boot.node.observe.metrics.exposition import NodeState, metrics_of
from ma_boot.node.observe.metrics.progress import Reading
from ma_boot.node.observe.metrics.record import CardSample, HostSample, RankSample, RankUsage, Sample
from ma_boot.redact import remember_secrets

HOST = HostSample(1234.5, 64, (1 << 30, 1 << 33), {'/a "b"\\c': (5, 9)}, 7, 8)
SAMPLE = Sample(
    100.0,
    (
        RankSample("scheduler", None, None, Reading()),
        RankSample(
            "rank 3", 3, RankUsage(12.5, 1 << 31, 61, 100, None), Reading(7, 0.5, math.nan, {"lr": 1e-4})
        ),
    ),
    HOST,
    "npu",
    (
        CardSample(0, 97.0, 100, 200, 55.0, None, "OK", "UP"),
        CardSample(1, 0.0, health="Alarm", link="gen4 x16"),
    ),
)


class FixedState(Collector):
    """Collector of the client library for one state."""

    def __init__(self, state: NodeState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        return metrics_of(self._state)


def text_of(state: NodeState) -> str:
    registry = CollectorRegistry()
    registry.register(FixedState(state))
    return generate_latest(registry).decode()


def parse(text: str) -> dict[tuple[str, str], float]:
    """The value of each sample by its name and its label besides the node."""
    figures: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            assert sample.labels.pop("node") == "2"
            sample.labels.pop("kind", None)
            figures[sample.name[len("ma_boot_") :], ",".join(sample.labels.values())] = sample.value
    return figures


def test_prometheus_reads_every_value() -> None:
    figures = parse(text_of(NodeState(SAMPLE, 2, frozenset({3}), {"counted": 90.0, "lost steps": 10.0})))
    loss = figures.pop(("rank_loss", "3"))
    assert math.isnan(loss)
    assert figures == {
        ("rank_cpu_seconds_total", "3"): 12.5,
        ("rank_resident_memory_bytes", "3"): 1 << 31,
        ("rank_threads", "3"): 61,
        ("rank_read_bytes_total", "3"): 100,
        ("rank_running", "scheduler"): 0,
        ("rank_running", "3"): 1,
        ("rank_slow", "scheduler"): 0,
        ("rank_slow", "3"): 1,
        ("rank_step", "3"): 7,
        ("rank_step_seconds", "3"): 0.5,
        ("rank_value", "lr,3"): 1e-4,
        ("card_utilisation_ratio", "0"): 0.97,
        ("card_utilisation_ratio", "1"): 0,
        ("card_memory_used_bytes", "0"): 100 << 20,
        ("card_memory_bytes", "0"): 200 << 20,
        ("card_temperature_celsius", "0"): 55,
        ("card_healthy", "0"): 1,
        ("card_healthy", "1"): 0,
        ("card_link_up", "0"): 1,
        ("node_cpu_seconds_total", ""): 1234.5,
        ("node_cores", ""): 64,
        ("node_memory_used_bytes", ""): 1 << 30,
        ("node_memory_bytes", ""): 1 << 33,
        ("node_received_bytes_total", ""): 7,
        ("node_sent_bytes_total", ""): 8,
        ("node_spent_seconds", "counted"): 90,
        ("node_spent_seconds", "lost steps"): 10,
        ("node_disk_used_bytes", '/a "b"\\c'): 5,
        ("node_disk_bytes", '/a "b"\\c'): 9,
    }


def test_counters_are_counters() -> None:
    types = {
        family.name: family.type for family in text_string_to_metric_families(text_of(NodeState(SAMPLE, 2)))
    }
    assert types["ma_boot_rank_cpu_seconds"] == "counter"
    assert types["ma_boot_rank_threads"] == "gauge"


def test_metrics_without_a_value_are_left_out() -> None:
    text = text_of(NodeState(Sample(0.0, (), HostSample()), 2))
    assert parse(text) == {("node_cores", ""): 1}


def test_names_and_labels_are_those_of_the_documentation() -> None:
    assert 'ma_boot_rank_cpu_seconds_total{node="2",rank="3"} 12.5\n' in text_of(NodeState(SAMPLE, 2))
    assert 'ma_boot_card_healthy{card="1",kind="npu",node="2"} 0.0\n' in text_of(NodeState(SAMPLE, 2))


def test_labels_have_no_secrets() -> None:
    remember_secrets({"SK": "Pl4nt3dSK"}, afresh=True)
    host = HostSample(disks={"/mnt/Pl4nt3dSK": (1, 2)})
    assert 'path="/mnt/******"' in text_of(NodeState(Sample(0.0, (), host), 2))
    remember_secrets({}, afresh=True)
