"""The timeline: its axis, and the positions of phases, processes and incidents."""

from __future__ import annotations

import pytest

from ma_boot.report.console import rendered
from ma_boot.report.page.compose import page_text
from ma_boot.report.page.lanes import (
    MOST_LANES,
    Lane,
    Moment,
    axis_of,
    figure,
    lane,
    lanes_of,
    legend_of,
    place,
    ticks,
)
from ma_boot.report.timeline.job_timeline import Timeline
from tests.synthetic import Writer
from tests.unit.report.page.seen import Seen, line_of, node_with, seen


def drawn(line: Timeline) -> Lane:
    """Returns the lane of the first node."""
    return lane(line.nodes[0], line.seconds)


class TestAxis:
    """Positions and labels of its moments."""

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
        first, *_, end = axis_of(seconds).moments
        assert first == Moment("left", "0", "0")
        assert (f"{end.side}:{end.percent}%", end.label) == (last, "90 s")

    @pytest.mark.parametrize(("seconds", "distance"), [(8.0, "12500"), (7.0, "14285.7"), (0.0025, "40000")])
    def test_the_grid_has_the_distance_of_the_moments(self, seconds: float, distance: str) -> None:
        assert axis_of(seconds).tick == distance

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
    """Boxes of phases."""

    def test_overlapping_phases_are_stacked_in_at_most_four_rows(self) -> None:
        node = Writer(0, 10**12)
        spans = (("a", 0, 100), ("b", 5, 10), ("c", 6, 50), ("d", 11, 60), ("e", 12, 20), ("f", 100, 110))
        for name, start, end in spans:
            node.phase(name, start, end)
        node.phase("g", 109.5, 120)
        assert [phase.top // 20 for phase in drawn(line_of(node)).phases] == [0, 1, 2, 1, 3, 0, 1]
        node = Writer(0, 10**12)
        for number in range(6):
            node.at(number / 10, "phase-start", phase=f"phase {number}")
        node.at(1000, "phase-end", phase="phase 0", outcome="done")
        node.at(1000, "phase-start", phase="late")
        stacked = drawn(line_of(node))
        assert [phase.top for phase in stacked.phases] == [0, 20, 40, 60, 60, 60, 0]
        assert stacked.phases[-1].width == "0.1", "a short one stays visible"
        assert stacked.phases_height == 80

    def test_one_without_an_end_ends_with_its_run_and_says_so(self) -> None:
        node = Writer(0, 10**12)
        for number, end in enumerate((50, 100)):
            node.at(100 * number, "phase-start", phase="job")
            node.at(100 * number + 10, "phase-start", phase="run")
            node.at(100 * number + end, "stop", reason="SIGTERM received")
        titles = [phase.title for phase in drawn(line_of(node)).phases if phase.title.startswith("run")]
        assert titles == ["run without an end, 40.0 s", "run without an end, 90.0 s"]

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
        (bar,) = drawn(line._replace(nodes=nodes)).bars
        assert [stroke.path for stroke in bar.strokes] == strokes

    def test_one_without_a_rank_is_above_rank_0_and_each_has_its_last_role(self) -> None:
        node = node_with()
        node.at(2, "start", label="scheduler", rank=None)
        for start, failed in ((2, 1), (30, 0)):
            for rank in (1, 0):
                node.at(start, "start", label=f"rank {rank}", rank=rank)
            node.at(start + 9, "exit", label=f"rank {failed}", code=3, stopped=False)
        node.at(50, "end", exit_code=3, by="training", label="rank 0")
        assert drawn(line_of(node)).names == (
            ("scheduler", "unknown"),
            ("rank 0", "cause"),
            ("rank 1", "unknown"),
        )

    def test_each_of_eight_processes_that_hung_has_its_dot(self) -> None:
        node = Writer(0, 10**12)
        for rank in range(10):
            node.at(1, "start", label=f"rank {rank}", rank=rank)
        node.at(5, "hang", labels=[f"rank {rank}" for rank in range(10)])
        assert [mark.kind for mark in drawn(line_of(node)).marks] == ["dot hang"] * 8

    def test_processes_of_the_last_run_count_and_a_rerun_is_in_the_legend(self) -> None:
        node = Writer(0, 10**12)
        for number in range(2):
            node.at(100 * number, "phase-start", phase="job")
            for rank in range(2 - number):
                node.at(100 * number + 1, "start", label=f"rank {rank}", rank=rank)
        page = seen(node)
        assert page.facts["processes"] == "1"
        assert page.legend[-1] == "boot command run again"


class TestFailures:
    """Red begins where a failure begins, and each end has a sign that needs no colour."""

    def failed(self, **fields: object) -> Timeline:
        """A job of 100 s: rank 1 fails at 60 s, rank 0 is stopped, the phase `run` ends at 80 s."""
        node = Writer(0, 10**12)
        node.phase("run", 20, 80, "failed")
        for rank in range(2):
            node.at(20, "start", label=f"rank {rank}", rank=rank)
            node.at(30, "first-output", label=f"rank {rank}", rank=rank)
        node.at(60, "exit", label="rank 1", code=3, stopped=False, ended_ns=node.ns(60))
        node.at(
            75,
            "exit",
            label="rank 0",
            stopped=True,
            ended_ns=node.ns(75),
            **{"code": 143, "signal": 15, **fields},
        )
        node.at(100, "end", exit_code=3, by="training", label="rank 1")
        node.at(0, "job", name="j")
        return line_of(node)

    def test_the_bar_of_the_cause_is_red_from_its_failure_on(self) -> None:
        _, cause = drawn(self.failed()).bars
        assert [tuple(stroke) for stroke in cause.strokes] == [
            ("quiet", "M200 24H300"), ("ran", "M300 24H599"), ("cause", "M599 24H600"), ("dot", "M600 24h0"),
        ]  # fmt: skip

    def test_a_later_failure_has_its_sign_at_its_end_too(self) -> None:
        later, _ = drawn(self.failed(code=1, signal=None)).bars
        assert [stroke.kind for stroke in later.strokes] == ["quiet", "ran", "followed", "dot followed"]

    def test_a_failed_phase_is_red_from_the_failure_on(self) -> None:
        (run,) = drawn(self.failed()).phases
        assert (run.kind, run.failed_at) == ("p5 failed", "66.7")
        node = node_with()
        node.phase("inputs", 20, 80, "failed")
        assert [phase.failed_at for phase in drawn(line_of(node)).phases] == ["", "100"], (
            "its end is known only"
        )

    def test_a_rank_that_hung_is_red_from_the_hang_on(self) -> None:
        node = Writer(0, 10**12)
        node.at(0, "job", name="j")
        node.phase("run", 20, 90, "failed")
        node.at(20, "start", label="rank 1", rank=1)
        node.at(20, "first-output", label="rank 1", rank=1)
        node.at(55, "hang", labels=["rank 1"])
        node.at(90, "exit", label="rank 1", code=143, signal=15, stopped=True, ended_ns=node.ns(90))
        node.at(95, "job cause", cause={"node": 0, "rank": 1, "code": 124, "words": "it hung"})
        node.at(100, "end", exit_code=124, by="ma_boot", cause="hung")
        picture = drawn(line_of(node))
        assert [stroke.path for stroke in picture.bars[0].strokes] == ["M200 8H550", "M550 8H900", "M900 8h0"]
        assert [phase.failed_at for phase in picture.phases] == ["50"]

    @pytest.mark.parametrize(
        ("end", "role"),
        [
            ({"exit_code": 0}, "well"),
            ({"exit_code": 0, "doubt": {"label": "rank 0", "words": "x"}}, "doubtful"),
            ({"exit_code": 143, "by": "signal", "signal": 15}, "stopped"),
            ({"exit_code": 66, "by": "ma_boot"}, "cause"),
            ({"exit_code": 3, "by": "training", "label": "rank 0"}, "cause"),
            (None, "unknown"),
        ],
    )
    def test_a_node_has_the_sign_of_its_end(self, end: dict[str, object] | None, role: str) -> None:
        node = node_with()
        code = 3 if end and end.get("by") == "training" else 0
        node.at(2, "start", label="rank 0", rank=0)
        node.at(3, "exit", label="rank 0", code=code, stopped=False)
        if end:
            node.at(5, "end", **end)
        line = line_of(node)
        assert drawn(line).role == role
        assert f"<b class=e-{role} " in Seen(page_text(line, {})).page

    def test_a_lost_node_has_failed_where_its_events_end(self) -> None:
        nodes = [Writer(number, 10**12) for number in range(2)]
        for node in nodes:
            node.at(0, "phase-start", phase="run")
            node.at(50, "stop", reason="x")
        job = Writer(0, 10**12)
        job.at(60, "job-end", exit_code=137, by="node", label="node 1", cause="node 1 was killed")
        line = line_of(*nodes, job.text().replace('"node": 0', '"node": null'))
        lanes = lanes_of(line)
        assert "failed" in dict(legend_of(line))
        assert [(each.role, each.phases[0].kind) for each in lanes] == [
            ("unknown", "p5 cut"),
            ("cause", "p5 failed"),
        ]
        assert lanes[1].phases[0].failed_at == "100"

    def test_a_node_that_was_stopped_for_another_one_has_not_failed(self) -> None:
        node = node_with(1)
        node.at(2, "start", label="rank 1", rank=1)
        node.at(3, "exit", label="rank 1", code=143, signal=15, stopped=True)
        node.at(4, "job cause", cause={"node": 0, "rank": 0, "code": 1, "words": "ValueError: x"})
        node.at(5, "end", exit_code=1, by="training")
        assert drawn(line_of(node)).role == "stopped"


def test_nodes_beyond_the_limit_are_counted_and_the_failed_one_is_drawn() -> None:
    files = []
    for number in range(MOST_LANES + 2):
        node = Writer(number, 10**12)
        code = 3 if number == MOST_LANES + 1 else 0
        node.at(0, "start", label=f"rank {number}", rank=number)
        node.at(60, "exit", label=f"rank {number}", code=code, stopped=False)
        node.at(61, "end", exit_code=code, by="training", label=f"rank {number}")
        files.append(node)
    page: Seen = seen(*files)
    assert page.page.count("<div class=lane>") == MOST_LANES
    assert "2 more nodes are not shown." in page.english
    assert f"<title>rank {MOST_LANES + 1}: 3" in page.page


def test_lines_for_a_terminal_have_colours_and_its_width() -> None:
    assert rendered("[red]one[/red] two three", 9) == ["\x1b[31mone\x1b[0m two ", "three"]
