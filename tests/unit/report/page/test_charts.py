"""The charts: their lines, their order, and the throughput of transfers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.report.page.charts import MOST_POINTS, charts_of
from ma_boot.report.page.data import data_of, rates
from ma_boot.report.timeline.job_timeline import Timeline, TransferSpan
from tests.synthetic import Writer, measured_job
from tests.unit.report.page.seen import line_of, seen_of


def measured(*samples: Any, first: float = 10.0) -> Timeline:
    """A job of 20 s with these samples, one a second."""
    node = Writer(0, 10**12)
    node.at(0, "phase-start", phase="job")
    for number, fields in enumerate(samples):
        node.at(first + number, "metrics", **fields)
    node.at(20, "end", exit_code=0)
    return line_of(node)


def charts(line: Timeline) -> list[tuple[str, str, list[tuple[str, ...]]]]:
    """Returns the name of each chart, the upper end of its scale, and its lines."""
    return [(chart.name.en, chart.high, [tuple(each) for each in chart.lines]) for chart in charts_of(line)]


def chart_of(line: Timeline, name: str) -> list[tuple[str, ...]]:
    """The lines of a chart."""
    (lines,) = [lines for other, _, lines in charts(line) if other == name]
    return lines


def path_of(metric: str, *values: float, first: float = 10.0) -> str:
    line = measured(*({"ranks": {"rank": [0], metric: [value]}} for value in values), first=first)
    ((_, _, ((_, _, path),)),) = charts(line)
    return path


class TestLines:
    """Positions of the lines."""

    def test_the_highest_value_is_at_the_top_and_the_lowest_or_nothing_at_the_bottom(self) -> None:
        assert path_of("cpu", 1.0, 2.0, 2.0) == "M500 27L550 2.5L600 2.5"
        assert path_of("loss", 2.0, 3.0, 4.0) == "M500 51.5L550 27L600 2.5"
        assert path_of("step_time", 2.0, 2.0, 2.0) == "M500 7L550 7L600 7", "room for peaks"
        values = [{"cards": {"card": [0], "temperature": [value]}} for value in (40.0, 60.0, 80.0)]
        assert chart_of(measured(*values), "temperature of cards")[0][2] == "M500 51.5L550 27L600 2.5"

    @pytest.mark.parametrize(
        ("first", "path"), [(0.0, "M0 2.5H2"), (10.0, "M498 2.5H502"), (20.0, "M998 2.5H1000")]
    )
    def test_a_single_value_is_a_short_stroke(self, first: float, path: str) -> None:
        many = [{"ranks": {"rank": [0], "cpu": [2.0]}}] * 3
        one = measured({"ranks": {"rank": [1], "cpu": [2.0]}}, first=first)
        node = Writer(0, 10**12)
        node.at(0, "phase-start", phase="job")
        for number, fields in enumerate(many):
            node.at(5 + number, "metrics", **fields)
        node.at(20, "end", exit_code=0)
        (_, run), (_, single) = *line_of(node).all_runs(), *one.all_runs()
        nodes = (one.nodes[0]._replace(runs=(run._replace(samples=(*run.samples, *single.samples)),)),)
        assert chart_of(one._replace(nodes=nodes), "CPU of ranks")[1][2] == path

    def test_a_first_step_that_compiles_does_not_flatten_the_others(self) -> None:
        path = chart_of(line_of(*measured_job(1, 2, slow=1)), "time of a step")[-1][2]
        rows = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)]
        assert rows[0] == 2.5, "the first step is at the top"
        assert 36 > rows[5] > rows[-1] + 5, "and a step that takes half as long again stands out"

    @pytest.mark.parametrize(("count", "points"), [(240, 240), (241, 21), (480, 40)])
    def test_more_than_240_values_are_means_of_equal_parts_of_the_time(self, count: int, points: int) -> None:
        node = Writer(0, 10**12)
        node.at(0, "phase-start", phase="job")
        for number in range(count):
            node.at(number / 12, "metrics", ranks={"rank": [0], "cpu": [1.0 + number % 2]})
        node.at(240, "end", exit_code=0)
        ((_, _, path),) = chart_of(line_of(node), "CPU of ranks")
        assert path.count("L") + 1 == points

    def test_days_of_metrics_are_a_few_hundred_points(self) -> None:
        values = [{"ranks": {"rank": [0, 1], "loss": [1.0 + n % 7, 2.0]}} for n in range(5000)]
        line = measured(*values)
        ((_, run),) = line.all_runs()
        assert 500 <= len(run.samples) <= 600
        assert chart_of(line, "loss")[0][2].count("L") < MOST_POINTS


class TestCharts:
    """Their order, and the ranks that are marked."""

    def test_each_metric_has_one_in_the_order_of_interest(self) -> None:
        line = line_of(*measured_job(2, 4, slow=2, fails=5))
        assert [name for name, *_ in charts(line)] == [
            "loss", "time of a step", "lr", "CPU of ranks", "memory of ranks", "read from disk", "use of cards",
            "memory of cards", "temperature of cards", "power of cards", "CPU of nodes", "memory of nodes", "disks",
            "network, received",
        ]  # fmt: skip
        lines = [(name, kind) for name, kind, _ in chart_of(line, "time of a step")]
        assert [kind for _, kind in lines[:-2]] == ["l0", "l1", "l3", "l4", "l6", "l7"]
        assert lines[-2:] == [("rank 2", "slow"), ("rank 5", "cause")]
        assert "rank 2: slower than the others" in seen_of(line).section("charts")

    def test_four_slow_ranks_are_marked_beside_the_cause(self) -> None:
        node = Writer(0, 10**12)
        for rank in range(6):
            node.at(rank, "start", label=f"rank {rank}", rank=rank)
            node.at(10, "slow rank", rank=rank, step_time=2, others=1)
        for number in range(3):
            node.at(15 + number, "metrics", ranks={"rank": list(range(6)), "cpu": [1] * 6})
        node.at(20, "exit", label="rank 5", code=3, stopped=False)
        node.at(20, "end", exit_code=3, by="training", label="rank 5")
        kinds = [kind for _, kind, _ in chart_of(line_of(node), "CPU of ranks")]
        assert kinds == ["l4", *["slow"] * 4, "cause"]

    @pytest.mark.parametrize(
        ("count", "kinds"), [(16, [f"l{rank % 8}" for rank in range(16)]), (17, ["each", "each", "middle"])]
    )
    def test_of_17_ranks_on_there_are_the_highest_the_lowest_and_the_median(
        self, count: int, kinds: list[str]
    ) -> None:
        sample = {"ranks": {"rank": list(range(count)), "cpu": [1.0 + n for n in range(count)]}}
        line = measured(sample, sample, sample)
        assert [kind for _, kind, _ in chart_of(line, "CPU of ranks")] == kinds
        slow = line_of(*measured_job(3, 8, slow=3))
        assert [kind for _, kind, _ in chart_of(slow, "loss")] == ["each", "each", "middle", "slow"]

    def test_cards_are_told_apart_by_their_nodes_where_there_are_several(self) -> None:
        for nodes, names in ((1, ["card 0"]), (2, ["node 0 card 0", "node 1 card 0"])):
            lines = chart_of(line_of(*measured_job(nodes, 1)), "use of cards")
            assert [name for name, *_ in lines] == names

    @pytest.mark.parametrize(
        "ranks",
        [
            None, 3, [], {}, {"rank": 3, "cpu": [1]}, {"rank": [0], "cpu": 3}, {"rank": [0], "cpu": [None]},
            {"rank": [0], "cpu": ["1"]}, {"rank": [0], "cpu": [True]}, {"rank": [0], "cpu": [float("nan")]},
            {"rank": [0], "cpu": [float("inf")]}, {"rank": [0], "cpu": [10**400]}, {"rank": [0], "values": [1]},
            {"rank": [0], "cpu": [0.0]}, {"rank": [0], "threads": [7]},
        ],
    )  # fmt: skip
    def test_values_that_are_not_numbers_make_no_chart(self, ranks: object) -> None:
        assert charts_of(measured({"ranks": ranks})) == []

    @pytest.mark.parametrize(
        ("read", "named"), [({}, True), ({"loss": [0.5]}, False), ({"values": {"acc": [0.5]}}, False)]
    )
    def test_where_nothing_was_read_the_option_for_it_is_named(self, read: Any, named: bool) -> None:
        sample = {"ranks": {"rank": [0], "cpu": [2], **read}}
        page = seen_of(measured(sample, sample, sample)).section("charts")
        assert ("--metric &#39;loss=" in page) is named

    @pytest.mark.parametrize(("samples", "shown"), [(2, []), (3, ["loss"])])
    def test_fewer_than_three_samples_draw_no_chart(self, samples: int, shown: list[str]) -> None:
        line = measured(*({"ranks": {"rank": [0, 1], "loss": [2.0 + n, 3.0]}} for n in range(samples)))
        assert [name for name, *_ in charts(line)] == shown
        assert ('<section id="charts">' in seen_of(line).page) is bool(shown)

    @pytest.mark.parametrize(("samples", "shown"), [(1, []), (2, ["download"])])
    def test_the_throughput_needs_three_samples_with_its_end(self, samples: int, shown: list[str]) -> None:
        node = Writer(0, 10**12)
        node.at(0, "phase-start", phase="job")
        for number in range(samples):
            node.at(2 + number, "progress", direction="download", bytes_done=10 * number)
        node.at(9, "transfer", direction="download", files=1, bytes=100, seconds=8)
        data = data_of(line_of(node))
        assert data is not None
        assert [chart.name.en for chart in data.curves] == shown

    def test_names_from_outside_are_escaped(self) -> None:
        bad = "<b>x</b>"
        sample = {"ranks": {"rank": [bad], "cpu": [2], "values": {bad: [1.0]}}}
        page = seen_of(measured(sample, sample, sample)).section("charts")
        assert bad not in page
        assert page.count("&lt;b&gt;x&lt;/b&gt;") == 3


@pytest.mark.parametrize(
    ("start", "end", "count", "samples", "expected"),
    [
        (0.0, 4.0, 80, (), [20, 20, 20, 20]),
        (1.0, 3.0, 40, (), [0, 20, 20, 0]),
        (0.5, 1.5, 40, (), [20, 20, 0, 0]),
        (2.0, 2.0, 7, (), [0, 0, 7, 0]),
        (4.0, 4.0, 7, (), [0, 0, 0, 7]),
        (3.5, 9.0, 11, (), [0, 0, 0, 11]),
        (0.0, 4.0, 20, ((3.0, 30),), [10, 10, 10, 0]),
        (0.0, 4.0, 40, ((1.0, 10), (3.0, 10)), [10, 0, 0, 30]),
        (0.0, 4.0, 30, ((1.0, 10), (0.5, 15), (2.0, 5), (3.0, 30)), [10, 10, 10, 0]),
    ],
)
def test_bytes_are_drawn_when_they_moved(
    start: float, end: float, count: int, samples: tuple[tuple[float, int], ...], expected: list[float]
) -> None:
    moved = [TransferSpan("download", start, end, 1, count, samples)]
    assert rates(moved, 4.0, 4) == pytest.approx(expected)


SAMPLES = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 10**9)), max_size=6)
TRANSFER = st.builds(
    TransferSpan, st.just("download"), st.floats(0, 50), st.floats(50, 100), st.just(1), st.integers(0, 10**9),
    SAMPLES.map(tuple),
)  # fmt: skip


@given(st.lists(TRANSFER, max_size=4))
def test_a_chart_shows_every_byte_once(moved: list[TransferSpan]) -> None:
    bins = rates(moved, 100.0, 50)

    def whole(transfer: TransferSpan) -> int:
        at, most = transfer.start, 0
        for moment, count in transfer.samples:
            if moment >= at and count >= most:
                at, most = moment, count
        return max(most, transfer.bytes)

    assert sum(bins) * 2.0 == pytest.approx(sum(map(whole, moved)), rel=1e-6, abs=1e-6)
