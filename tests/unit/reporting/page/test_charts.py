"""Where the lines of charts are, and when they become a band."""

from __future__ import annotations

from typing import Any, List

import pytest

from ma_boot.reporting.page.charts import MetricChart, _range, _thinned, charts, marked
from ma_boot.reporting.page.compose import page_text
from ma_boot.reporting.timeline import Timeline, read_events, timeline_of
from tests.synthetic import Writer


def measured(*samples: Any, first: float = 10.0) -> Timeline:
    """A job of 20 s with these samples, one a second."""
    node = Writer(0, 10**12)
    node.at(0, "phase-start", phase="job")
    for number, fields in enumerate(samples):
        node.at(first + number, "metrics", **fields)
    node.at(20, "end", exit_code=0)
    return timeline_of([read_events(node.text(), lambda text: text)])


def path_of(metric: str, *values: float, first: float = 10.0) -> str:
    line = measured(*({"ranks": {"rank": [0], metric: [value]}} for value in values), first=first)
    (chart,) = charts(line)
    return chart.lines[0].path


def test_the_highest_value_is_at_the_top_and_the_lowest_or_nothing_at_the_bottom() -> None:
    assert path_of("cpu", 1.0, 2.0) == "M500 27L550 2.5"
    assert path_of("loss", 2.0, 3.0, 4.0) == "M500 51.5L550 27L600 2.5"
    assert path_of("loss", 0.2, 0.3, 0.4) == "M500 51.5L550 27L600 2.5"
    assert path_of("step_time", 2.0) == "M498 7H502", "room for peaks"


@pytest.mark.parametrize(
    ("first", "path"), [(0.0, "M0 2.5H2"), (10.0, "M498 2.5H502"), (20.0, "M998 2.5H1000")]
)
def test_a_single_value_is_a_short_stroke(first: float, path: str) -> None:
    assert path_of("cpu", 2.0, first=first) == path


def test_what_is_far_from_zero_begins_at_its_lowest_value() -> None:
    values = [{"ranks": {"rank": [0], "values": {"lr": [one]}}, "cards": {"card": [0], "temperature": [one]}} for one in (40.0, 80.0)]  # fmt: skip
    assert [(chart.name.en, chart.lines[0].path) for chart in charts(measured(*values))] == [
        ("lr", "M500 51.5L550 2.5"),
        ("temperature of cards", "M500 51.5L550 2.5"),
    ]


def test_four_slow_ranks_are_marked_beside_the_cause() -> None:
    node = Writer(0, 10**12)
    for rank in range(6):
        node.at(rank, "start", label=f"rank {rank}", rank=rank)
        node.at(10, "slow rank", rank=rank, step_time=2, others=1)
    node.at(20, "exit", label="rank 5", code=3, stopped=False)
    node.at(20, "end", exit_code=3, by="training", label="rank 5")
    line = timeline_of([read_events(node.text(), lambda text: text)])
    assert marked(line) == {**{f"rank {rank}": "slow" for rank in range(4)}, "rank 5": "cause"}


def test_more_than_240_values_are_means() -> None:
    few = [(float(at), 1.0) for at in range(240)]
    assert _thinned(few, 240.0) == few
    assert _thinned([*few, (240.0, 5.0)], 240.0)[-1] == (239.5, 3.0), "the very end is in the last part"
    many = _thinned([(at + 0.5, float(at)) for at in range(480)], 480.0)
    assert [pytest.approx(2 * part + 1) for part in range(240)] == [at for at, _ in many]
    assert [value for _, value in many] == [2 * part + 0.5 for part in range(240)]


@pytest.mark.parametrize(("count", "kinds"), [(16, ["each"] * 16), (17, ["middle"])])
def test_of_17_ranks_on_there_is_a_band(count: int, kinds: List[str]) -> None:
    line = measured({"ranks": {"rank": list(range(count)), "cpu": [1.0 + rank for rank in range(count)]}})
    (chart,) = charts(line)
    assert isinstance(chart, MetricChart)
    assert [one.kind for one in chart.lines] == kinds
    assert ('class="band"' in page_text(line, {})) is (count > 16)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        ("0.9 cores", "1.1 cores", "0.9 – 1.1 cores"),
        ("1.0 kB", "2.0 MB", "1.0 kB – 2.0 MB"),
        ("1", "2", "1 – 2"),
        ("1 W", "1 W", "1 W"),
    ],
)
def test_the_unit_of_a_range_is_said_once(low: str, high: str, text: str) -> None:
    assert _range(low, high) == text
