"""The event of two samples."""

from __future__ import annotations

import json

from ma_boot.node.observe.metrics.progress import Reading
from ma_boot.node.observe.metrics.record import (
    CardSample,
    HostSample,
    RankSample,
    RankUsage,
    Sample,
    event_of,
)

NOTHING = HostSample()
GIB = 1 << 30


def ranks(cpu: float, step: int) -> tuple[RankSample, ...]:
    usage = RankUsage(cpu, 3 << 20, 7, read=int(cpu * 1e6), written=None)
    return (
        RankSample("scheduler", None, RankUsage(0.0, 1 << 20, 1, 0), Reading()),
        RankSample("rank 0", 0, usage, Reading(step, 0.123456, 2.5, {"lr": 1e-4})),
        RankSample("rank 1", 1, None, Reading()),
    )


def test_rates_are_those_of_the_period() -> None:
    before, now = Sample(100.0, ranks(5.0, 1), NOTHING), Sample(110.0, ranks(25.0, 9), NOTHING)
    assert event_of(before, now) == {
        "seconds": 10.0,
        "ranks": {
            "rank": ["scheduler", 0, 1],
            "cpu": [0.0, 2.0, None],
            "rss": [1, 3, None],
            "threads": [1, 7, None],
            "read": [0.0, 2.0, None],
            "step": [None, 9, None],
            "step_time": [None, 0.12346, None],
            "loss": [None, 2.5, None],
            "values": {"lr": [None, 1e-4, None]},
        },
        "host": {"cores": 1},
    }


def test_the_first_period_begins_with_the_ranks() -> None:
    now = Sample(104.0, ranks(2.0, 1), HostSample(900.0, 2, None, {}, 5, 5))
    event = event_of(Sample(100.0, (), NOTHING), now)
    assert event["ranks"]["cpu"] == [0.0, 0.5, None]
    assert "cpu" not in event["host"], "the machine has been running for longer"


def test_machine_and_cards_are_recorded() -> None:
    before = Sample(0.0, (), HostSample(10.0, 4, (GIB, 4 * GIB), {}, 0, 0))
    host = HostSample(12.0, 4, (2 * GIB, 4 * GIB), {"/cache": (GIB, 8 * GIB)}, 3_000_000, 1_000_000)
    cards = (
        CardSample(0, 97.0, 30000, 32768, 55.0, 310.2, "OK", "UP", memory_activity=40.0),
        CardSample(1, 96.0, health="Alarm"),
    )
    event = event_of(before, Sample(10.0, (), host, "npu", cards))
    assert event["host"] == {
        "cpu": 0.2, "cores": 4, "memory": [2048, 4096], "disks": {"/cache": [1024, 8192]}, "received": 0.3, "sent": 0.1,
    }  # fmt: skip
    assert event["cards"] == {
        "card": [0, 1], "kind": "npu", "utilisation": [97.0, 96.0], "memory": [30000, None],
        "memory_total": [32768, None], "temperature": [55.0, None], "power": [310.2, None], "health": ["OK", "Alarm"],
        "link": ["UP", None],
    }  # fmt: skip


def test_values_that_are_not_finite_become_null() -> None:
    reading = Reading(1, float("inf"), float("nan"))
    sample = Sample(1.0, (RankSample("rank 0", 0, None, reading),), NOTHING)
    assert json.dumps(event_of(sample, sample), allow_nan=False).count("null") == 0
    assert event_of(sample, sample)["ranks"] == {"rank": [0], "step": [1]}


def test_an_hour_of_16_ranks_and_cards_is_less_than_a_megabyte() -> None:
    usage = RankUsage(123456.78, 200 << 30, 512, 1 << 50, 1 << 50)
    many = tuple(
        RankSample(f"rank {rank + 100}", rank + 100, usage, Reading(123456, 12.3456, 2.34567))
        for rank in range(16)
    )
    cards = tuple(CardSample(card, 100.0, 65000, 65536, 65.5, 310.5, "OK", "UP") for card in range(16))
    disks = {
        "/home/ma-user": (1 << 50, 1 << 50),
        "/cache": (1 << 50, 1 << 50),
        "/dev/shm": (1 << 40, 1 << 40),
    }
    host = HostSample(1e9, 192, (1 << 41, 1 << 41), disks, 1 << 60, 1 << 60)
    zero = tuple(rank._replace(usage=RankUsage(0, 0, 0, 0, 0)) for rank in many)
    before = Sample(0.0, zero, HostSample(0.0, 192, None, {}, 0, 0))
    event = event_of(before, Sample(10.0, many, host, "npu", cards))
    times = {"time": 1795355671.0120072, "monotonic_ns": 37395998203146, "kind": "metrics", "node": 31}
    assert 360 * len(json.dumps({**times, **event})) < 1e6
