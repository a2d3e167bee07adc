"""What the page shows, and in which order: lanes, strips, rows and logs; and what it leaves out."""

from __future__ import annotations

from typing import List, Optional, Tuple

import pytest

from ma_boot.reporting.page.compose import page_text
from ma_boot.reporting.page.headline import headline, missing_nodes, said
from ma_boot.reporting.page.lanes import Chart, lane
from ma_boot.reporting.page.language import in_both, same
from ma_boot.reporting.page.sections import facts, header, incident_rows, logs_to_read, process_rows
from ma_boot.reporting.page.transfers import transfers
from ma_boot.reporting.timeline import Timeline, read_events, timeline_of
from tests.synthetic import BEGAN, Writer, small_job


def line_of(*nodes: Writer) -> Timeline:
    return timeline_of([read_events(node.text(), lambda text: text) for node in nodes])


def node_with(number: int = 0, end: float = 1) -> Writer:
    node = Writer(number, 10**12)
    node.phase("job", 0, end)
    return node


def ran(node: Writer, label: str, rank: Optional[int], end: float, code: int = 0) -> None:
    node.at(2, "start", label=label, rank=rank, log_file=f"/log/{label}")
    node.at(end, "exit", label=label, code=code, stopped=False)


class TestLanes:
    """A lane for each node."""

    def test_a_process_without_a_rank_is_above_rank_0_whichever_began_first(self) -> None:
        node = node_with()
        for label, rank in (("rank 1", 1), ("rank 0", 0), ("scheduler", None)):
            ran(node, label, rank, 10)
        line = line_of(node)
        drawn = lane(line.nodes[0], line.seconds, Chart.of(line))
        assert [row.text for row in drawn.rows] == ["scheduler", "rank 0", "rank 1"]
        assert [process.label for process in logs_to_read(line)] == ["rank 0", "scheduler", "rank 1"]

    def test_phases_that_overlap_are_above_each_other_and_others_are_not(self) -> None:
        node = Writer(0, 10**12)
        spans = (("a", 0, 100), ("b", 5, 10), ("c", 6, 50), ("d", 11, 60), ("e", 12, 20), ("f", 100, 110))
        for name, start, end in spans:
            node.phase(name, start, end)
        node.phase("g", 109.5, 120)
        line = line_of(node)
        boxes = lane(line.nodes[0], line.seconds, Chart.of(line)).phases
        assert [box.top // 20 for box in boxes] == [0, 1, 2, 1, 3, 0, 1]

    def test_strips_leave_short_phases_out_unless_they_failed(self) -> None:
        node = Writer(0, 10**12)
        spans = (
            ("a", 0, 1.9, "done"), ("b", 10, 12, "done"), ("c", 20, 21, "failed"),
            ("d", 30, 32.5, "done"), ("e", 990, 1000, "done"), ("f", 500, 501, "done"),
        )  # fmt: skip
        for name, start, end, outcome in spans:
            node.phase(name, start, end, outcome)
        line = line_of(node)
        strips = lane(line.nodes[0], line.seconds, Chart.of(line)._replace(many=True)).strips
        assert {strip.kind: strip.path for strip in strips} == {
            "p9": "M10 2.5h2M30 2.5h2.5M990 2.5h10",
            "failed": "M20 2.5h1",
        }

    @pytest.mark.parametrize("outcome", ["done", "failed"])
    def test_the_legend_explains_a_failed_phase_where_there_is_one(self, outcome: str) -> None:
        node = node_with()
        node.phase("inputs", 1, 2, outcome)
        kinds = [entry.kind for entry in Chart.of(line_of(node)).legend]
        assert ("failed" in kinds) is (outcome == "failed")

    def test_what_printed_at_once_was_never_quiet(self) -> None:
        node = node_with(end=100)
        node.at(0, "start", label="rank 0", rank=0)
        node.at(0, "first-output", label="rank 0")
        node.at(50, "start", label="rank 1", rank=1)
        node.at(50, "first-output", label="rank 1")
        line = line_of(node)
        bars = lane(line.nodes[0], line.seconds, Chart.of(line)).bars
        assert [[stroke.kind for stroke in bar.strokes] for bar in bars] == [["unknown"], ["unknown"]]

    def test_the_name_that_is_marked_is_that_of_the_last_cause(self) -> None:
        node = node_with()
        for start, rank in ((2, 1), (30, 0)):
            for one in (0, 1):
                node.at(start, "start", label=f"rank {one}", rank=one)
            node.at(start + 9, "exit", label=f"rank {rank}", code=3, stopped=False)
        node.at(50, "end", exit_code=3, by="training", label="rank 0")
        line = line_of(node)
        drawn = lane(line.nodes[0], line.seconds, Chart.of(line))
        assert [(row.text, row.hit) for row in drawn.rows] == [("rank 0", True), ("rank 1", False)]

    @pytest.mark.parametrize(
        ("start", "first", "end", "strokes"),
        [
            (100, 150, 200, ("M100 8H150", "M150 8H200")),
            (100, None, 200, ("M100 8H200", "M199 8H200")),
            (100, 100.5, 200, ("M100 8H100.5", "M100.5 8H200")),
            (100, 199.5, 200, ("M100 8H199.5", "M199.5 8H200")),
            (100, 100, 200, ("M100 8H200",)),
            (100, 300, 200, ("M100 8H200", "M199 8H200")),
            (100, None, 100, ("M100 8H101",)),
            (100, 100.5, 100.5, ("M100 8H100.5", "M100.5 8H101")),
        ],
    )  # fmt: skip
    def test_a_bar_is_quiet_until_the_first_output_and_its_end_stays_visible(
        self, start: float, first: Optional[float], end: float, strokes: Tuple[str, ...]
    ) -> None:
        node = Writer(0, 10**12)
        node.at(0, "start", label="rank 0", rank=0)
        node.at(1000, "end", exit_code=0)
        (line,) = (line_of(node).nodes,)
        process = line[0].runs[0].processes[0]._replace(start=start, first_output=first, end=end)
        shown = line[0]._replace(runs=(line[0].runs[0]._replace(processes=(process,)),))
        (bar,) = lane(shown, 1000.0, Chart.of(line_of(node))).bars
        assert tuple(stroke.path for stroke in bar.strokes) == strokes

    def test_a_phase_without_an_end_says_so(self) -> None:
        node = node_with()
        node.at(2, "phase-start", phase="run")
        node.at(9, "stop", reason="SIGTERM received")
        line = line_of(node)
        *_, box = lane(line.nodes[0], line.seconds, Chart.of(line)).phases
        assert box.title == "run without an end, 7.0 s"

    def test_a_steady_transfer_is_one_stroke(self) -> None:
        node = node_with()
        node.at(90, "transfer", direction="upload", files=2, bytes=1_300_000_000, seconds=10)
        (curve,) = transfers(line_of(node)).curves
        assert curve.path == "M0 72H885V56.9H890V4H1000V72z"


class TestHeadline:
    """Whose end it is."""

    def test_a_hang_is_named_only_if_it_was_the_end(self) -> None:
        node = node_with()
        node.at(2, "end", exit_code=124, by="ma_boot")
        assert headline(line_of(node)).en == "Processes hung or could not be killed on node 0."
        node = node_with()
        node.at(1, "hang", labels=["rank 0"])
        node.at(2, "end", exit_code=66, by="ma_boot")
        assert headline(line_of(node)).en == "An input does not exist in OBS on node 0."

    def test_it_is_the_hang_of_the_last_run(self) -> None:
        text = ""
        for number, label in enumerate(("rank 0", "rank 1")):
            run = Writer(0, 10**12)
            run.phase("job", 10 * number, 10 * number + 1)
            run.at(10 * number + 2, "hang", labels=[label])
            run.at(10 * number + 3, "end", exit_code=124, by="ma_boot")
            text += run.text()
        assert headline(timeline_of([read_events(text, lambda text: text)])).en == "Rank 1 on node 0 hung."

    @pytest.mark.parametrize(
        ("numbers", "words"), [([1], "Node 1 was stopped"), ([0, 1], "Nodes 0, 1 were stopped")]
    )
    def test_a_part_of_the_nodes_speaks_for_itself(self, numbers: List[int], words: str) -> None:
        nodes = [node_with(number) for number in numbers]
        for node in nodes:
            node.at(0, "job", name="j", nodes=3)
            node.at(2, "end", exit_code=143, by="signal", signal=15)
        assert headline(line_of(*nodes)).en.startswith(words)

    def test_nodes_without_an_end_are_named_beside_a_stop(self) -> None:
        nodes = [node_with(number) for number in range(3)]
        nodes[0].at(2, "end", exit_code=143, by="signal", signal=15)
        assert headline(line_of(*nodes)) == (
            "The job was stopped by SIGTERM from outside; nodes 1, 2 recorded no end.",
            "作业被外部信号 SIGTERM 停止；节点 1, 2 没有结束记录。",
        )

    def test_how_many_nodes_are_missing_is_known_up_to_4096(self) -> None:
        node = node_with(1)
        assert missing_nodes(line_of(node)) == [], "nobody says how many there are"
        node.at(0, "job", name="j", nodes=5000)
        assert missing_nodes(line_of(node)) == [0, *range(2, 4096)]

    @pytest.mark.parametrize(
        ("cause", "words"),
        [
            (
                "not every output was uploaded:\n  - out: HTTP 403\n  - b",
                "not every output was uploaded: out: HTTP 403",
            ),
            ("not every output was uploaded\n  - out", "not every output was uploaded"),
            ("not every output was uploaded:", "not every output was uploaded:"),
        ],
    )
    def test_ma_boots_own_words_have_their_first_item(self, cause: str, words: str) -> None:
        node = node_with()
        node.at(2, "end", exit_code=74, by="output", cause=cause)
        assert said(line_of(node), "").en == words

    def test_an_oom_kill_is_the_cause_whatever_the_log_ends_with(self) -> None:
        node = node_with()
        node.at(1, "start", label="rank 0", rank=0)
        node.at(
            9, "exit", label="rank 0", rank=0, code=137, signal=9, stopped=False,
            oom="the kernel killed 1 process of this container (limit 300 MiB)",
        )  # fmt: skip
        node.at(
            10,
            "end",
            exit_code=137,
            by="training",
            label="rank 0",
            cause="rank 0 was killed",
            words="an error",
        )
        line = line_of(node)
        assert headline(line).en.startswith(
            "Rank 0 on node 0 failed first: it was killed by the kernel, out of memory, after "
        )
        assert headline(line).zh.startswith("rank 0（节点 0）最先失败：运行 ")
        assert headline(line).zh.endswith("后因内存不足被内核终止。")
        words = said(line, "loading the shards\nan error of long ago\n")
        assert words.en == "out of memory: the kernel killed 1 process of this container (limit 300 MiB)"
        assert words.zh == "内存不足：内核终止了本容器的 1 个进程（上限 300 MiB）"

    def test_an_incident_of_several_nodes_has_the_clock_of_the_first(self) -> None:
        nodes = [node_with(number) for number in (0, 1)]
        for node in nodes:
            node.at(10 + node.node, "dropped", lines=7)
        (row,) = incident_rows(line_of(*nodes))
        assert (row.at, row.clock - BEGAN) == ("10.0 s – 11.0 s", 10.0)


def test_a_text_that_seems_to_be_nested_without_end_does_no_harm() -> None:
    assert in_both("signal " * 5000 + "9").zh.startswith("信号 信号 ")


def test_the_command_of_each_node_is_named_once() -> None:
    nodes = [node_with(number) for number in range(3)]
    for node in nodes:
        ran(node, "command", None, 9)
    ran(nodes[0], "scheduler", None, 9)
    (row,), _ = process_rows(line_of(*nodes))
    assert (row.processes, row.nodes) == ("command, scheduler", "0–2")


class TestLogs:
    """Whose logs are shown, and what is on top."""

    def test_those_that_failed_after_the_cause_are_in_the_order_of_their_ends(self) -> None:
        node = node_with()
        for rank, end in ((0, 9.0), (1, 8.0), (2, 5.0)):
            ran(node, f"rank {rank}", rank, end, code=3)
        node.at(10, "end", exit_code=3, by="training", label="rank 2")
        assert [process.label for process in logs_to_read(line_of(node))] == ["rank 2", "rank 1", "rank 0"]

    @pytest.mark.parametrize(("log_file", "wanted"), [("/log/node 1", ["node 1"]), ("", [])])
    def test_a_node_that_left_no_end_has_its_log_on_top(self, log_file: str, wanted: List[str]) -> None:
        job = Writer(0, 10**12)
        job.at(1, "start", label="node 1", log_file=log_file)
        job.at(6, "job-end", exit_code=137, by="node", label="node 1")
        text = job.text().replace('"node": 0', '"node": null')
        node = node_with()
        line = timeline_of([read_events(one, lambda text: text) for one in (node.text(), text)])
        assert [process.label for process in logs_to_read(line)] == wanted

    def test_hints_are_cut_at_600_characters(self) -> None:
        node = node_with()
        ran(node, "rank 0", 0, 9, code=2)
        node.at(10, "end", exit_code=2, by="training", label="rank 0")
        tails = {"/log/rank 0": "train.py: error: unrecognized arguments: --" + "x" * 1000}
        (hint,) = header(line_of(node), tails).hints
        assert len(hint.en) == 600


def test_facts_of_no_node_at_all() -> None:
    assert facts(timeline_of([])).nodes == same("0")


def test_a_whole_page_has_each_part_and_says_nothing_of_what_there_is_not() -> None:
    line = timeline_of([read_events(file, lambda text: text) for file in small_job()])
    page = page_text(line, {"/log/1": "OSError: [Errno 28] No space left on device"})
    for shown in (
        "the training&#x27;s own exit code", "What to do", "the disk is full", ">Timeline<", "peak 80 B/s",
        ">uploaded<", "5.0 MB",
    ):  # fmt: skip
        assert shown in page, shown
    for hidden in (
        "do not fit on this page",
        ">All processes<",
        "Unreadable lines",
        ">None<",
    ):
        assert hidden not in page, hidden
    empty = page_text(timeline_of([]), {})
    for part in (">Timeline<", "What to do", ">uploaded<", "peak"):
        assert part not in empty
    several = node_with()
    for rank in range(3):
        ran(several, f"rank {rank}", rank, 9)
    assert ">All processes<" in page_text(line_of(several), {})
