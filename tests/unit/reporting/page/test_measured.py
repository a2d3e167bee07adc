"""Charts of metrics, and the stacks of a hang, from their events to the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ma_boot.cli.app import main
from ma_boot.reporting.page.charts import HEIGHT, MOST_POINTS, MetricChart, charts, marked
from ma_boot.reporting.page.compare import compared
from ma_boot.reporting.page.compose import page_text
from ma_boot.reporting.timeline import Timeline, read_events, timeline_of
from tests.synthetic import Writer, measured_job, small_job, synthetic_job


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


class TestComparison:
    """Two runs side by side."""

    def test_commands_are_shown_where_both_are_known_and_differ(self) -> None:
        def started(name: str, command: str) -> Timeline:
            node = Writer(0, 10**12)
            node.at(0, "job", name=name, command=command)
            return line_of(node.text())

        def shown(this: str, other: str) -> List[str]:
            page = page_text(started("new", this), {}, None, started("old", other))
            assert "Compared with old" in page
            assert "与 old 对比" in page
            return re.findall(
                r'<h3><span class="en">\S+ (?:other )?run</span>.*?</h3>.*?<pre>(.*?)</pre>', page
            )

        assert shown("a x", "a y") == ["a x", "a y"]
        assert shown("a x", "a x") == []
        assert shown("a x", "") == []

    def test_the_command_of_a_run_that_was_repeated_is_that_of_the_last_time(self) -> None:
        again = Writer(0, 10**12)
        for number in range(2):
            again.phase("job", 10 * number, 10 * number + 1)
            again.at(10 * number + 1, "job", name="new", command=f"try {number}")
        old = Writer(0, 10**12)
        old.at(0, "job", name="old", command="try 0")
        page = page_text(line_of(again.text()), {}, None, line_of(old.text()))
        comparison = page[page.index('id="comparison"') :].partition('id="time"')[0]
        assert re.findall("<pre>(.*?)</pre>", comparison) == ["try 1", "try 0"]

    def test_of_many_nodes_32_are_compared(self) -> None:
        for count in (32, 33):
            line = line_of(*synthetic_job(count, 1))
            page = page_text(line, {}, None, line)
            assert page.count("1 more nodes do not fit on this page.") == (2 if count == 33 else 0)

    def page(self, tmp_path: Path) -> str:
        for name, nodes, slow in (("new", 1, 1), ("old", 2, None)):
            for number, text in enumerate(measured_job(nodes, 2, slow=slow)):
                (tmp_path / f"{name}-{number}-events.jsonl").write_text(text)
        page = tmp_path / "job.html"
        words = [
            *("report", str(tmp_path / "new-0-events.jsonl"), "--compare"),
            *(str(tmp_path / f"old-{number}-events.jsonl") for number in range(2)),
            *("--output", str(page)),
        ]
        assert main(words, {}) == 0
        return page.read_text()

    def test_both_are_drawn_and_each_figure_has_its_difference(self, tmp_path: Path) -> None:
        page = self.page(tmp_path)
        section = page[page.index('id="comparison"') : page.index('id="time"', page.index("</table>"))]
        assert "<td>2</td><td>x 2.0</td>" in section, "twice as many nodes"
        rows = re.findall(r'<tr><td><span class="en">(.*?)</span>', section)
        assert rows[0] == "end"
        assert {"duration", "nodes", "run (slowest node)", "time of a step (median)", "loss (last)"} <= set(
            rows
        )
        assert "The job succeeded: all 2 processes" in section
        assert "The job succeeded: all 4 processes" in section
        assert page.count("<title>rank 0: 0,") == 3, "this run, both beside each other"

    def test_without_events_of_another_run_it_is_refused(self, tmp_path: Path) -> None:
        events = tmp_path / "x-events.jsonl"
        events.write_text(measured_job(1, 1)[0])
        assert main(["report", str(events), "--compare", "--output", str(tmp_path / "page")], {}) == 64
        assert main(["report", str(events), "--compare", str(tmp_path / "none")], {}) == 64

    def test_without_another_run_there_is_none(self) -> None:
        line = line_of(*measured_job(1, 2))
        assert 'id="comparison"' not in page_text(line, {})

    def test_a_run_of_which_little_is_known_has_gaps(self) -> None:
        line, empty = line_of(*measured_job(1, 2)), timeline_of([])
        for this, other in ((line, empty), (empty, line), (empty, empty)):
            assert 'id="comparison"' in page_text(this, {}, None, other)
        rows = {row.name.en: row for row in compared(line, empty)}
        assert (rows["downloaded"].other.en, rows["downloaded"].difference) == ("–", "")

    @pytest.mark.parametrize(
        ("this", "other", "difference"),
        [
            (100, 101, "="),
            (100, 102.1, "+2 %"),
            (100, 98.1, "="),
            (100, 97.9, "-2 %"),
            (100, 140, "+40 %"),
            (100, 60, "-40 %"),
            (100, 0.4, "-99.6 %"),
            (100, 0.01, "-99.9 %"),
            (100, 199, "+99 %"),
            (100, 200, "x 2.0"),
            (100, 310, "x 3.1"),
            (1, 99.9, "x 99.9"),
            (1, 100, "> x 100"),
        ],
    )  # fmt: skip
    def test_the_difference(self, this: float, other: float, difference: str) -> None:
        line = line_of(*small_job())
        rows = compared(line._replace(seconds=this), line._replace(seconds=other))
        assert [row.difference for row in rows if row.name.en == "duration"] == [difference]

    def test_each_figure_that_a_run_has_is_a_row(self) -> None:
        line = line_of(*small_job())
        rows = compared(line, timeline_of([]))
        assert [(row.name.en, row.this.en) for row in rows[1:]] == [
            ("duration", "1:40 min"),
            ("nodes", "2"),
            ("processes", "4"),
            ("job (slowest node)", "0.5 s"),
            ("inputs (slowest node)", "20.0 s"),
            ("rank table (slowest node)", "30.0 s"),
            ("run (slowest node)", "50.0 s"),
            ("outputs (slowest node)", "10.0 s"),
            ("until first output (slowest)", "9.0 s"),
            ("downloaded", "1.0 kB"),
            ("uploaded", "5.0 MB"),
        ]
        assert [row.other.en for row in rows[2:]] == ["0", "0", *["–"] * 8]

    def test_of_what_was_measured_the_middle_the_last_or_the_highest_counts(self) -> None:
        line = line_of(
            node_with(
                {"rank": [0, 1], "step_time": [1.0, 9.0], "loss": [4.0, 4.5], "cpu": [1.0, 3.0], "rss": [10, 900]},
                {"rank": [0, 1], "step_time": [2.0, 3.0], "loss": [2.0, 2.5], "cpu": [2.0, 2.5], "rss": [500, 20]},
            ).text()
        )  # fmt: skip
        found = {row.name.en: row.this.en for row in compared(line, line)}
        assert (found["time of a step (median)"], found["loss (last)"]) == ("3 s", "2.5")
        assert (found["CPU of a rank (median)"], found["memory of a rank (highest)"]) == ("2.5", "944 MB")
