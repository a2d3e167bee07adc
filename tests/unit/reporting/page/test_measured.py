"""Charts of metrics, and the stacks of a hang, from their events to the page."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List

import pytest

from ma_boot.reporting.page.charts import HEIGHT, MOST_POINTS, MetricChart, charts, marked
from ma_boot.reporting.page.compose import page_text
from ma_boot.reporting.timeline import Timeline, read_events, timeline_of
from tests.synthetic import Writer, measured_job


def line_of(*files: str) -> Timeline:
    return timeline_of([read_events(file, lambda text: text) for file in files])


def node_with(*samples: object) -> Writer:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    for number, ranks in enumerate(samples):
        node.at(10 + number, "metrics", ranks=ranks)
    node.at(20, "end", exit_code=0)
    return node


def chart_of(line: Timeline, name: str) -> MetricChart:
    (found,) = [chart for chart in charts(line) if chart.name.en == name]
    return found


class TestCharts:
    """A chart for each metric."""

    def test_each_metric_has_one_in_the_order_of_interest(self) -> None:
        line = line_of(*measured_job(2, 4, slow=2, fails=5))
        assert [chart.name.en for chart in charts(line)] == [
            "time of a step", "loss", "lr", "CPU of ranks", "memory of ranks", "read from disk", "use of cards",
            "memory of cards", "temperature of cards", "power of cards", "CPU of nodes", "memory of nodes", "disks",
            "network, received",
        ]  # fmt: skip
        step = chart_of(line, "time of a step")
        assert [(one.name, one.kind) for one in step.lines[-2:]] == [("rank 2", "slow"), ("rank 5", "cause")]
        assert [one.kind for one in step.lines[:-2]] == ["each"] * 6
        assert marked(line) == {"rank 2": "slow", "rank 5": "cause"}
        page = page_text(line, {})
        assert "rank 2: slower than the others" in page
        assert "rank 2：比其他 rank 慢" in page

    def test_a_few_ranks_are_lines_many_are_a_band_with_those_of_interest(self) -> None:
        few, many = (line_of(*measured_job(nodes, 8, slow=3)) for nodes in (2, 3))
        assert [one.kind for one in chart_of(few, "loss").lines] == ["each"] * 15 + ["slow"]
        assert chart_of(few, "loss").band == ""
        assert [one.kind for one in chart_of(many, "loss").lines] == ["middle", "slow"]
        assert chart_of(many, "loss").band.endswith("z")

    def test_cards_are_told_apart_by_their_nodes_where_there_are_several(self) -> None:
        one, two = (line_of(*measured_job(nodes, 1)) for nodes in (1, 2))
        assert [drawn.name for drawn in chart_of(one, "use of cards").lines] == ["card 0"]
        assert [drawn.name for drawn in chart_of(two, "use of cards").lines] == [
            "node 0 card 0",
            "node 1 card 0",
        ]

    def test_lines_are_where_their_values_are(self) -> None:
        line = line_of(node_with({"rank": [0], "cpu": [0.0]}, {"rank": [0], "cpu": [2.0]}).text())
        chart = chart_of(line, "CPU of ranks")
        assert (chart.range, chart.lines[0].path) == ("0 – 2 cores", f"M500 {HEIGHT - 0.5}L550 2.5")
        (alone,) = charts(line_of(node_with({"rank": [0], "loss": [3.0]}).text()))
        assert (alone.range, alone.lines[0].path) == ("3", f"M498 {HEIGHT - 0.5}H502")

    def test_a_first_step_that_compiles_does_not_flatten_the_others(self) -> None:
        line = line_of(*measured_job(1, 2, slow=1))
        rows = [
            float(y)
            for y in re.findall(r"[ML][\d.]+ ([\d.]+)", chart_of(line, "time of a step").lines[-1].path)
        ]
        assert rows[0] == 2.5, "the first step is at the top"
        assert HEIGHT * 0.7 > rows[5] > rows[-1] + 5, "and a step that takes half as long again stands out"

    def test_days_of_metrics_are_a_few_hundred_points(self) -> None:
        node = node_with(*({"rank": [0, 1], "loss": [1.0 + number % 7, 2.0]} for number in range(5000)))
        line = line_of(node.text())
        ((_, run),) = line.all_runs()
        assert 500 <= len(run.samples) <= 600
        assert chart_of(line, "loss").lines[0].path.count("L") < MOST_POINTS
        assert len(page_text(line, {})) < 60_000

    @pytest.mark.parametrize(
        "ranks",
        [
            None, 3, [], {}, {"rank": 3, "cpu": [1]}, {"rank": [0], "cpu": 3}, {"rank": [0], "cpu": [None]},
            {"rank": [0], "cpu": ["1"]}, {"rank": [0], "cpu": [True]}, {"rank": [0], "cpu": [float("nan")]},
            {"rank": [0], "cpu": [float("inf")]}, {"rank": [0], "cpu": [10**400]}, {"rank": [0], "values": [1]},
            {"rank": [0], "cpu": [0.0]}, {"rank": [0], "threads": [7]},
        ],
    )  # fmt: skip
    def test_what_is_no_figure_is_no_chart(self, ranks: object) -> None:
        line = line_of(node_with(ranks).text())
        assert charts(line) == []
        assert 'id="charts"' not in page_text(line, {})

    def test_names_from_outside_are_escaped(self) -> None:
        bad = "<b>x</b>"
        line = line_of(node_with({"rank": [bad], "values": {bad: [1.0]}}, {"rank": [bad], "cpu": [2]}).text())
        page = page_text(line, {})
        assert bad not in page
        assert "&lt;b&gt;x&lt;/b&gt;" in page


def hang(**fields: object) -> str:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    node.at(5, "hang", labels=["rank 1"])
    node.at(6, "stacks", **fields)
    node.at(
        7,
        "end",
        exit_code=124,
        by="ma_boot",
        cause="rank 1 hung, and ma_boot stopped the run (--hang-action stop)",
    )
    return node.text()


class TestStacks:
    """Where the processes of a hang were."""

    def test_equal_stacks_are_one_box_the_odd_one_is_open_and_the_suspect_is_in_the_headline(self) -> None:
        folded = [{"ranks": [1], "stack": "load <data>"}, {"ranks": [0, 2, 3], "stack": "all_reduce"}]
        suspect = {"rank": 1, "node": 0, "why": "is loading data, while ranks 0, 2-3 are in all_reduce"}
        page = page_text(line_of(hang(folded=folded, suspect=suspect)), {})
        section = page[page.index('id="stacks"') : page.index('id="time"')]
        assert re.findall(r'<span class="en">(rank .*?)</span>', section) == ["rank 0, 2–3 (3 alike)"]
        assert section.index("load &lt;data&gt;") < section.index("all_reduce</pre>")
        assert section.count("<details open>") == 2
        heading = page[page.index("<h1>") : page.index("</h1>")]
        assert "Rank 1 on node 0 hung." in heading
        assert "node 0, rank 1 is loading data, while" in heading

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"folded": 3},
            {"folded": [3, {"ranks": 1}, {"ranks": [True, -1, "x"]}]},
            {"suspect": [1]},
            {"suspect": {"why": 3}},
        ],
    )
    def test_anything_else_is_a_page_all_the_same(self, fields: object) -> None:
        page = page_text(line_of(hang(**json.loads(json.dumps(fields)))), {})
        assert "Rank 1 on node 0 hung." in page

    @pytest.mark.parametrize(
        ("places", "more"), [(24, ""), (25, "and 1 more places"), (30, "and 6 more places")]
    )
    def test_many_places_are_counted(self, places: int, more: str) -> None:
        folded: List[object] = [{"ranks": [rank], "stack": f"f{rank}"} for rank in range(places)]
        page = page_text(line_of(hang(folded=folded)), {})
        assert re.findall("and .* more places", page) == ([more] if more else [])
        assert (">f23<" in page, ">f24<" in page) == (True, False)

    def test_the_odd_one_is_marked_and_two_are_open(self) -> None:
        page = page_text(line_of(hang(folded=[{"ranks": [rank], "stack": "x"} for rank in range(3)])), {})
        section = page[page.index('id="stacks"') : page.index('id="time"')]
        assert re.findall('<details(.*?)><summary><b class="(.*?)">', section) == [
            (" open", "cause"),
            (" open", "stopped"),
            ("", "stopped"),
        ]

    def test_two_ranks_are_alike(self) -> None:
        page = page_text(
            line_of(hang(folded=[{"ranks": [1, 3], "stack": "x"}, {"ranks": [], "stack": "y"}])), {}
        )
        assert "rank 1, 3 (2 alike)" in page
        assert ">rank ?</summary>" in page, "whose it is is not known"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"node": 3, "rank": 27, "code": 1, "words": "ValueError: <x>"},
            "node 3, rank 27: ValueError: &lt;x&gt;",
        ),
        ({"node": 3, "rank": None, "code": 137, "words": ""}, "node 3: exit code 137"),
        ({}, ""),
    ],
)
def test_a_node_that_others_ended_says_who_did(fields: Dict[str, Any], said: str) -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    node.at(5, "job cause", cause=fields)
    node.at(7, "end", exit_code=143, by="signal", cause="stopped by SIGTERM", signal=15)
    page = page_text(line_of(node.text()), {})
    heading = page[page.index("<h1>") : page.index("</h1>")]
    assert "The job was stopped by SIGTERM" in heading
    assert said in heading
    assert ("said" in heading) is bool(said)
