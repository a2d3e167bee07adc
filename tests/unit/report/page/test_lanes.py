"""The timeline: its axis, where phases and processes are drawn, and what is left out of a dense one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ma_boot.report.console import rendered
from ma_boot.report.page.lanes import Chart, axis, figure, lane, place, tick, ticks
from ma_boot.report.timeline.job_timeline import Timeline
from tests.synthetic import Writer
from tests.unit.report.page.seen import Seen, line_of, node_with, processes, seen

OF_STROKE = r'<path class="?([a-z0-9 ]+)"? d="(.*?)"/>'


def drawn(line: Timeline, **changed: Any) -> str:
    """The lane of the first node; `changed` is what its chart has in place of what fits the job."""
    return lane(line.nodes[0], line.seconds, Chart.of(line)._replace(**changed))


def boxes(html: str) -> list[tuple[str, str, str]]:
    """The titles of phases, their widths in percent, and their distances from the top."""
    return re.findall(
        r'<div class="phase [^"]*" title="(.*?)" style="left:.*?%;width:(.*?)%;top:(.*?)px">', html
    )


class TestAxis:
    """Where its moments are, and what they are called."""

    @pytest.mark.parametrize(
        ("seconds", "step"),
        [
            (0.007, 0.001), (0.014, 0.002), (0.035, 0.005), (0.07, 0.01), (0.14, 0.02), (0.35, 0.05), (0.7, 0.1),
            (1.4, 0.2), (3.5, 0.5), (7, 1), (14, 2), (35, 5), (70, 10), (105, 15), (210, 30), (420, 60), (840, 120),
            (2100, 300), (4200, 600), (6300, 900), (12600, 1800), (25200, 3600), (50400, 7200), (100800, 14400),
            (151200, 21600), (302400, 43200), (604800, 86400), (1209600, 172800), (4233600, 604800), (8e7, 1e7),
        ],
    )  # fmt: skip
    def test_the_steps(self, seconds: float, step: float) -> None:
        """Of the next smaller step there would be more than eight."""
        assert ticks(seconds)[0] == step

    @pytest.mark.parametrize(
        ("seconds", "labels"),
        [
            (0.004, ["0", "0.001 s", "0.002 s", "0.003 s", "0.004 s"]),
            (3.0, ["0", "0.5 s", "1 s", "1.5 s", "2 s", "2.5 s", "3 s"]),
            (60.0, ["0", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]),
            (180.0, ["0", "30 s", "60 s", "90 s", "2:00", "2:30", "3:00"]),
            (420.0, ["0", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min", "7 min"]),
            (9000.0, ["0", "30 min", "60 min", "90 min", "2:00 h", "2:30 h"]),
            (20000.0, ["0", "1:00 h", "2:00 h", "3:00 h", "4:00 h", "5:00 h"]),
        ],
    )
    def test_the_labels(self, seconds: float, labels: list[str]) -> None:
        assert [label for _, label in ticks(seconds)[1]] == labels

    @pytest.mark.parametrize(
        ("seconds", "last"), [(102.0, "right:11.8%"), (103.0, "left:87.4%"), (100.0, "right:10%")]
    )
    def test_a_label_near_the_end_stays_inside(self, seconds: float, last: str) -> None:
        first, *_, (where, label) = re.findall('<i style="(.*?)">(.*?)</i>', axis(seconds))
        assert (first, where, label) == (("left:0%", "0"), last, "90 s")

    @pytest.mark.parametrize(("seconds", "distance"), [(8.0, "12500"), (7.0, "14285.7"), (0.0025, "40000")])
    def test_the_grid_has_the_distance_of_the_moments(self, seconds: float, distance: str) -> None:
        assert tick(seconds) == distance

    def test_places_are_on_the_axis_and_short(self) -> None:
        assert [place(at, 10.0) for at in (-1.0, 0.0, 2.5, 10.0, 11.0)] == [0, 0, 250, 1000, 1000]
        assert [figure(value) for value in (0.0, 10.0, 10.04, 10.051, 100.0)] == [
            "0",
            "10",
            "10",
            "10.1",
            "100",
        ]


class TestPhases:
    """Boxes, or strips of a dense drawing."""

    def test_those_that_overlap_are_above_each_other_at_most_four(self) -> None:
        node = Writer(0, 10**12)
        spans = (("a", 0, 100), ("b", 5, 10), ("c", 6, 50), ("d", 11, 60), ("e", 12, 20), ("f", 100, 110))
        for name, start, end in spans:
            node.phase(name, start, end)
        node.phase("g", 109.5, 120)
        assert [int(top) // 20 for _, _, top in boxes(drawn(line_of(node)))] == [0, 1, 2, 1, 3, 0, 1]
        node = Writer(0, 10**12)
        for number in range(6):
            node.at(number / 10, "phase-start", phase=f"phase {number}")
        node.at(1000, "phase-end", phase="phase 0", outcome="done")
        node.at(1000, "phase-start", phase="late")
        html = drawn(line_of(node))
        assert [top for _, _, top in boxes(html)] == ["0", "20", "40", "60", "60", "60", "0"]
        assert boxes(html)[-1][1] == "0.1", "a short one stays visible"
        assert '<div class=phases style="height:80px">' in html

    def test_one_without_an_end_ends_with_its_run_and_says_so(self) -> None:
        node = Writer(0, 10**12)
        for number, end in enumerate((50, 100)):
            node.at(100 * number, "phase-start", phase="job")
            node.at(100 * number + 10, "phase-start", phase="run")
            node.at(100 * number + end, "stop", reason="SIGTERM received")
        titles = [title for title, *_ in boxes(drawn(line_of(node))) if title.startswith("run")]
        assert titles == ["run without an end, 40.0 s", "run without an end, 90.0 s"]

    def test_strips_leave_short_phases_out_unless_they_failed(self) -> None:
        node = Writer(0, 10**12)
        spans = (
            ("a", 0, 1.9, "done"), ("b", 10, 12, "done"), ("c", 20, 21, "failed"),
            ("d", 30, 32.5, "done"), ("e", 990, 1000, "done"), ("f", 500, 501, "done"),
        )  # fmt: skip
        for name, start, end, outcome in spans:
            node.phase(name, start, end, outcome)
        node.at(1000, "start", label="rank 0", rank=0)
        strokes = re.findall(OF_STROKE, drawn(line_of(node), many=True).partition("<g>")[0])
        assert strokes == [("p9", "M10 2.5h2M30 2.5h2.5M990 2.5h10"), ("failed", "M20 2.5h1")]

    @pytest.mark.parametrize(("count", "many"), [(16, False), (17, True)])
    def test_of_many_nodes_they_are_strips(self, count: int, many: bool) -> None:
        page = seen(*(node_with(number) for number in range(count)))
        assert ('<div class="phase ' in page.page) is not many
        assert page.page.count('class="lane axis"') == (2 if many else 1), "above and below"

    def test_the_legend_names_twelve_and_a_failed_one(self) -> None:
        node = Writer(0, 10**12)
        for number in range(13):
            node.phase(f"phase {number}", number, number + 1)
        assert seen(node).legend == [f"phase {number}" for number in range(12)]
        node.phase("inputs", 20, 21, "failed")
        assert seen(node).legend[-1] == "failed phase"


class TestProcesses:
    """A bar for each."""

    @pytest.mark.parametrize(
        ("start", "first", "end", "strokes"),
        [
            (100, 150, 200, ["M100 8H150", "M150 8H200"]),
            (100, None, 200, ["M100 8H200", "M199 8H200"]),
            (100, 100.5, 200, ["M100 8H100.5", "M100.5 8H200"]),
            (100, 199.5, 200, ["M100 8H199.5", "M199.5 8H200"]),
            (100, 100, 200, ["M100 8H200"]),
            (100, 300, 200, ["M100 8H200", "M199 8H200"]),
            (100, None, 100, ["M100 8H101"]),
            (100, 100.5, 100.5, ["M100 8H100.5", "M100.5 8H101"]),
        ],
    )  # fmt: skip
    def test_a_bar_is_quiet_until_the_first_output_and_its_end_stays_visible(
        self, start: float, first: float | None, end: float, strokes: list[str]
    ) -> None:
        node = Writer(0, 10**12)
        node.at(0, "start", label="rank 0", rank=0)
        node.at(1000, "end", exit_code=0)
        line = line_of(node)
        run = line.nodes[0].runs[0]
        process = run.processes[0]._replace(start=start, first_output=first, end=end)
        nodes = (line.nodes[0]._replace(runs=(run._replace(processes=(process,)),)),)
        assert [path for _, path in re.findall(OF_STROKE, drawn(line._replace(nodes=nodes)))] == strokes

    def test_one_without_a_rank_is_above_rank_0_and_the_last_cause_is_marked(self) -> None:
        node = node_with()
        node.at(2, "start", label="scheduler", rank=None)
        for start, failed in ((2, 1), (30, 0)):
            for rank in (1, 0):
                node.at(start, "start", label=f"rank {rank}", rank=rank)
            node.at(start + 9, "exit", label=f"rank {failed}", code=3, stopped=False)
        node.at(50, "end", exit_code=3, by="training", label="rank 0")
        names = re.findall('<i( class=hit)? style="height:16px">(.*?)</i>', drawn(line_of(node)))
        assert names == [("", "scheduler"), (" class=hit", "rank 0"), ("", "rank 1")]

    def test_each_of_eight_processes_that_hung_has_its_dot(self) -> None:
        node = Writer(0, 10**12)
        for rank in range(10):
            node.at(1, "start", label=f"rank {rank}", rank=rank)
        node.at(5, "hang", labels=[f"rank {rank}" for rank in range(10)])
        assert drawn(line_of(node)).count('class="dot hang"') == 8

    def test_those_of_the_last_run_count_and_a_run_again_is_in_the_legend(self) -> None:
        node = Writer(0, 10**12)
        for number in range(2):
            node.at(100 * number, "phase-start", phase="job")
            for rank in range(2 - number):
                node.at(100 * number + 1, "start", label=f"rank {rank}", rank=rank)
        page = seen(node)
        assert page.facts["processes"] == "1"
        assert page.legend[-1] == "boot command run again"

    @pytest.mark.parametrize(
        ("count", "row", "bar", "dense"),
        [(1, 16, 10, False), (32, 16, 10, False), (33, 13, 8, False), (64, 13, 8, False), (65, 6, 4, True),
         (160, 6, 4, True), (161, 4, 3, True)],
    )  # fmt: skip
    def test_rows_are_the_smaller_the_more_there_are(
        self, count: int, row: int, bar: int, dense: bool
    ) -> None:
        chart = Chart.of(line_of(processes(count)))
        assert (chart.row, chart.bar, chart.dense, chart.many) == (row, bar, dense, False)

    def test_a_dense_lane_names_its_ranks_or_the_cause_if_there_is_room(self) -> None:
        for count, code, names in ((8, 0, ["0–7"]), (4, 0, []), (8, 3, ["rank 0"])):
            html = drawn(line_of(processes(count, code)), row=6, dense=True)
            assert re.findall("<i.*?>(.*?)</i>", html) == names
        html = drawn(line_of(processes(5)), row=4, dense=True, many=True)
        assert "height=26" in html
        assert "<i>0–4</i>" in html, "of 26 pixels there is room"


def test_of_more_than_fits_the_node_that_failed_is_drawn_and_there_is_room_for_its_log() -> None:
    files = []
    for number in range(130):
        node = Writer(number, 10**12)
        ranks = range(8 * number, 8 * number + 8)
        for rank in ranks:
            node.at(0, "start", label=f"rank {rank}", rank=rank, log_file=f"/log/{rank}")
        for turn in range(50):  # each has a dot on each rank
            node.at(turn, "hang", labels=[f"rank {rank}" for rank in ranks])
        node.at(60, "exit", label=f"rank {ranks[0]}", code=3 if number == 129 else 0, stopped=False)
        node.at(61, "end", exit_code=3 if number == 129 else 0, by="training", label=f"rank {ranks[0]}")
        files.append(node)
    page: Seen = seen(*files, tails={"/log/1032": "the very last words\n" * 300})
    assert len(page.page.encode()) < 2_000_000
    lanes = page.page.count("<title>rank ") // 8
    assert 50 < lanes < 130
    assert f"{130 - lanes} more nodes do not fit on this page." in page.english
    assert "<title>rank 1032: 3" in page.page
    assert page.page.count("the very last words") > 300, "in the head, and whole among the logs"


def test_lines_for_a_terminal_have_colours_and_its_width() -> None:
    assert rendered("[red]one[/red] two three", 9) == ["\x1b[31mone\x1b[0m two ", "three"]
