"""The parts of the page by their limits: what is shown, what is summed up, what is left out and said."""

from __future__ import annotations

import re
from typing import List, Optional

import pytest

from ma_boot.reporting.page.compose import page_text
from ma_boot.reporting.page.headline import headline, meaning, missing_nodes, node_list
from ma_boot.reporting.page.lanes import Chart, lane
from ma_boot.reporting.page.language import Text, code_shown, ranges
from ma_boot.reporting.page.sections import facts, header, incident_rows, log_ends, logs_to_read, process_rows
from ma_boot.reporting.page.transfers import transfers
from ma_boot.reporting.timeline import Timeline, read_events, timeline_of
from tests.synthetic import Writer


def line_of(*nodes: Writer) -> Timeline:
    return timeline_of([read_events(node.text(), lambda text: text) for node in nodes])


def node_with(number: int = 0) -> Writer:
    node = Writer(number, 10**12)
    node.phase("job", 0, 1)
    return node


def processes(count: int, code: int = 0) -> Writer:
    node = node_with()
    for rank in range(count):
        node.at(2, "start", label=f"rank {rank}", rank=rank, log_file=f"/log/{rank}")
        node.at(
            9 + rank / 1000, "exit", label=f"rank {rank}", rank=rank, code=code and code + rank, stopped=False
        )
    node.at(100, "end", exit_code=code, by="training" if code else None, label="rank 0")
    return node


class TestRuns:
    """Runs of the boot command in one container."""

    @pytest.mark.parametrize(("gap", "runs"), [(1799, 2), (1800, 2), (1801, 1)])
    def test_one_that_ended_half_an_hour_before_the_next_is_left_out(self, gap: float, runs: int) -> None:
        first, second = Writer(0, 10**12), Writer(0, 10**12)
        first.phase("job", 0, 1)
        second.phase("job", 1 + gap, 2 + gap)
        line = timeline_of([read_events(first.text() + second.text(), lambda text: text)])
        assert (len(line.nodes[0].runs), line.earlier_runs) == (runs, 2 - runs)

    def test_the_last_twenty_are_shown(self) -> None:
        text = ""
        for number in range(21):
            run = Writer(0, 10**12)
            run.phase("job", 10 * number, 10 * number + 1)
            text += run.text()
        line = timeline_of([read_events(text, lambda text: text)])
        assert (len(line.nodes[0].runs), line.earlier_runs) == (20, 1)
        assert facts(line).reruns == 19
        page = page_text(line, {})
        assert "Earlier runs that are not shown: 1." in page

    def test_without_events_there_is_a_page_all_the_same(self) -> None:
        line = timeline_of([])
        assert (line.nodes, line.began, line.seconds, line.job) == ((), 0.0, 0.001, "")
        assert "There are no events of any node." in page_text(line, {})


def test_texts_are_cut_each_at_its_length() -> None:
    long = "x" * 5000
    node = Writer(0, 10**12)
    node.at(0, "job", name=long)
    node.phase(long, 1, 2, long, long)
    node.at(3, "start", label=long, rank=0, log_file=long)
    node.at(4, "exit", label=long, code=1, stopped=False, oom=long)
    node.at(5, "fault", target=long, fault=long)
    node.at(6, "waiting", what=long, reason=long)
    node.at(7, "hang", labels=[long] * 9)
    node.at(8, "transfer", direction=long, files=1, bytes=1, seconds=1)
    node.at(9, "progress", direction=long, bytes_done=1)
    node.at(10, "end", exit_code=1, by=long, cause=long, label=long)
    line = line_of(node)
    ((run,),) = (found.runs for found in line.nodes)
    (phase,), (process,) = run.phases, run.processes
    assert [len(text) for text in (line.job, run.by, run.cause, run.label)] == [200, 20, 3000, 60]
    assert [len(text) for text in (phase.name, phase.outcome, phase.detail)] == [40, 20, 300]
    assert [len(text) for text in (process.label, process.oom, process.log_file)] == [60, 300, 1000]
    assert [(len(one.label), len(one.text)) for one in run.incidents] == [
        (100, 300),
        (100, 300),
        (8 * 102 - 2, 0),
    ]
    assert [len(transfer.direction) for transfer in run.transfers] == [20, 20]


@pytest.mark.parametrize(("code", "failed"), [(0, False), (1, True), (2, True)])
def test_which_processes_failed(code: int, failed: bool) -> None:
    line = line_of(processes(1, code=code))
    ((_, process),) = line.last_processes()
    assert process.failed is failed
    assert (process.role == "cause") is failed


def test_the_last_words_on_top_are_cut_at_300_characters() -> None:
    found = header(line_of(processes(1, code=3)), {"/log/0": "x" * 400})
    assert found.last_words == "x" * 300


class TestTables:
    """Rows that sum up."""

    def test_without_processes_transfers_and_incidents_there_are_no_tables(self) -> None:
        page = page_text(line_of(node_with()), {})
        assert "<table" not in page
        for heading in ("Processes", "Inputs and outputs", "What happened", "Logs"):
            assert f">{heading}<" not in page

    @pytest.mark.parametrize(("count", "each"), [(1, 0), (2, 2), (64, 64), (65, 0)])
    def test_processes_that_ended_alike_are_one_row(self, count: int, each: int) -> None:
        groups, single = process_rows(line_of(processes(count)))
        assert [row.processes for row in groups] == ["rank 0" if count == 1 else f"rank 0–{count - 1}"]
        assert len(single) == each

    def test_at_most_forty_ways_to_end_are_shown_the_cause_first(self) -> None:
        groups, single = process_rows(line_of(processes(45, code=3)))
        assert len(groups) == 40
        assert (groups[0].processes, groups[0].role, single) == ("rank 0", "cause", [])

    @pytest.mark.parametrize(("count", "more"), [(59, ""), (60, ""), (61, "and 1 more")])
    def test_at_most_sixty_incidents_are_shown(self, count: int, more: str) -> None:
        node = node_with()
        for number in range(count):
            node.at(number, "fault", target=f"rank {number}", fault="kill")
        line = line_of(node)
        assert len(incident_rows(line)) == count
        page = page_text(line, {})
        assert page.count("injected fault") == min(60, count) + 1, "and the legend"
        assert re.findall(r"and -?\d+ more", page) == ([more] if more else [])

    def test_the_same_incident_on_several_nodes_is_one_row(self) -> None:
        nodes = [node_with(number) for number in (0, 1, 2, 5)]
        for node in nodes:
            node.at(10 + node.node, "dropped", lines=7)
        (row,) = incident_rows(line_of(*nodes))
        assert (row.at, row.nodes, row.text.en) == ("10.0 s – 15.0 s", "0–2, 5", "7")

    def test_a_cell_has_at_most_200_characters(self) -> None:
        node = node_with()
        node.at(1, "fault", target="x" * 100, fault="y" * 100)
        assert len(incident_rows(line_of(node))[0].text.en) == 200

    @pytest.mark.parametrize(
        ("count", "rows", "each", "heading"),
        [
            (8, 8, 0, "All transfers"),
            (9, 1, 9, "All transfers"),
            (40, 1, 40, "All transfers"),
            (41, 1, 40, "The first 40 transfers"),
        ],
    )
    def test_transfers_are_rows_while_they_are_few(
        self, count: int, rows: int, each: int, heading: str
    ) -> None:
        node = node_with()
        for number in range(count):
            node.at(
                10 + number, "transfer", direction="download", files=1, bytes=1000, seconds=number, retries=1
            )
        found = transfers(line_of(node))
        assert (len(found.rows), len(found.each), found.each_heading.en) == (rows, each, heading)
        if rows == 1:
            (row,) = found.rows
            assert (row.files.en, row.retries, row.nodes) == (str(count), str(count), "0")
            assert row.time.en == f"up to {count - 1:.1f} s"

    def test_one_that_did_not_finish_is_summed_up_with_the_others(self) -> None:
        node = node_with()
        for number in range(8):
            node.at(10 + number, "transfer", direction="download", files=1, bytes=1000, seconds=1)
        node.at(30, "progress", direction="download", bytes_done=500)
        (row,) = transfers(line_of(node)).rows
        assert (row.files.en, row.size, row.retries) == ("8", "8.5 kB", "")

    def test_a_transfer_that_did_not_finish_and_one_that_took_no_time(self) -> None:
        node = node_with()
        node.at(5, "transfer", direction="upload", files=1, bytes=10, seconds=0)
        node.at(6, "progress", direction="download", bytes_done=7)
        rows = transfers(line_of(node)).rows
        assert [(row.direction.en, row.size, row.time.en, row.rate, row.retries) for row in rows] == [
            ("upload", "10 B", "0.0 s", "", ""),
            ("download", "7 B", "not finished", "", ""),
        ]

    def test_each_direction_has_its_sum_and_a_rate_beside_each(self) -> None:
        node = node_with()
        for number in range(8):
            node.at(10 + number, "transfer", direction="download", files=1, bytes=1000, seconds=0.5)
        node.at(30, "transfer", direction="upload", files=3, bytes=10, seconds=0.002, by_length=2)
        found = transfers(line_of(node))
        assert [(row.direction.en, row.files.en, row.size, row.rate) for row in found.rows] == [
            ("download", "8", "8.0 kB", ""),
            ("upload", "3 (length only: 2)", "10 B", ""),
        ]
        assert [row.rate for row in found.each] == ["2.0 kB/s"] * 8 + ["5.0 kB/s"]

    def test_logs_are_in_the_order_of_interest_and_at_most_256(self) -> None:
        line = line_of(processes(262, code=3))
        wanted = [process.label for process in logs_to_read(line)]
        assert wanted == [f"rank {rank}" for rank in range(256)]
        tails = {f"/log/{rank}": "words" for rank in range(262)}
        assert [log.file for log in log_ends(line, tails, {})] == [f"/log/{rank}" for rank in range(256)]
        page = page_text(line, tails)
        assert "The logs of 6 more processes are in the log directory only." in page


class TestWords:
    """Numbers and names in sentences."""

    @pytest.mark.parametrize(
        ("numbers", "text"),
        [([], ""), ([3], "3"), ([1, 2], "1–2"), ([5, 0, 1, 2, 2, 7, 8], "0–2, 5, 7–8"), ([0, 2], "0, 2")],
    )
    def test_ranges(self, numbers: List[int], text: str) -> None:
        assert ranges(numbers) == text

    @pytest.mark.parametrize(
        ("code", "signal", "text"),
        [(None, None, "?"), (7, None, "7"), (7, 0, "7"), (143, 15, "143 SIGTERM"), (None, 9, "?")],
    )
    def test_codes(self, code: Optional[int], signal: Optional[int], text: str) -> None:
        assert code_shown(code, signal) == text

    def test_long_lists_of_nodes(self) -> None:
        assert node_list(list(range(8))).en == "0, 1, 2, 3, 4, 5, 6, 7"
        assert node_list(list(range(9))) == Text(
            "0, 1, 2, 3, 4, 5, 6, 7 and 1 more", "0, 1, 2, 3, 4, 5, 6, 7 等 9 个"
        )

    def test_nodes_without_events_are_missing(self) -> None:
        node = node_with(1)
        node.at(1, "job", name="j", nodes=3)
        line = line_of(node)
        assert missing_nodes(line) == [0, 2]
        assert facts(line).nodes == Text("1 of 3", "1 / 3")
        assert facts(line).missing_nodes == Text("0, 2", "0, 2")

    @pytest.mark.parametrize(
        ("end", "said", "means"),
        [
            ({"exit_code": 0}, "The job succeeded: all 0 processes ended with exit code 0.", "all processes succeeded"),
            ({"exit_code": 143, "by": "signal", "signal": 15}, "The job was stopped by SIGTERM from outside.", "128 + the number"),
            ({"exit_code": 130, "by": "signal"}, "The job was stopped by SIGINT from outside.", "128 + the number"),
            ({"exit_code": 5, "by": "training"}, "The job failed with exit code 5.", "the training's own"),
            ({"exit_code": 139, "by": "training"}, "The job failed with exit code 139.", "a shell or launcher uses this code for signal 11, SIGSEGV"),
            ({"exit_code": 66, "by": "ma_boot"}, "An input does not exist in OBS on node 0.", "of ma_boot"),
            ({"exit_code": 99, "by": "ma_boot"}, "The job failed with exit code 99.", "of ma_boot"),
        ],
    )  # fmt: skip
    def test_the_headline(self, end: dict[str, object], said: str, means: str) -> None:
        node = node_with()
        node.at(2, "end", **end)
        line = line_of(node)
        assert headline(line).en == said
        meant = meaning(line.outcome)
        assert meant is not None
        assert means in meant.en

    def test_nodes_without_an_end_are_named_up_to_eight(self) -> None:
        line = line_of(*(node_with(number) for number in range(9)))
        assert "nodes 0, 1, 2, 3, 4, 5, 6, 7… recorded no end" in headline(line).en
        eight = line_of(*(node_with(number) for number in range(8)))
        assert "nodes 0, 1, 2, 3, 4, 5, 6, 7 recorded no end" in headline(eight).en
        assert "nodes 0, 1 recorded no end" in headline(line_of(node_with(0), node_with(1))).en


class TestDrawing:
    """Sizes by the number of processes."""

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

    @pytest.mark.parametrize(("count", "many", "phase"), [(16, False, 20), (17, True, 5)])
    def test_of_many_nodes_phases_are_strips(self, count: int, many: bool, phase: int) -> None:
        line = line_of(*(node_with(number) for number in range(count)))
        chart = Chart.of(line)
        assert (chart.many, chart.phase) == (many, phase)
        drawn = lane(line.nodes[0], line.seconds, chart)
        assert (bool(drawn.strips), bool(drawn.phases)) == (many, not many)
        assert page_text(line, {}).count('class="lane axis"') == (2 if many else 1), "above and below"

    def test_at_most_four_phases_are_above_each_other_and_short_ones_stay_visible(self) -> None:
        node = Writer(0, 10**12)
        for number in range(6):
            node.at(number / 10, "phase-start", phase=f"phase {number}")
        node.at(1000, "phase-end", phase="phase 0", outcome="done")
        node.at(1000, "phase-start", phase="late")
        line = line_of(node)
        drawn = lane(line.nodes[0], line.seconds, Chart.of(line))
        assert [box.top for box in drawn.phases] == [0, 20, 40, 60, 60, 60, 0]
        assert drawn.phases[-1].width == "0.1"
        assert drawn.phases_height == 80

    def test_a_dense_lane_names_its_ranks_if_there_is_room(self) -> None:
        line = line_of(processes(8))
        chart = Chart.of(line)._replace(row=6, dense=True)
        assert lane(line.nodes[0], line.seconds, chart).rows == (("0–7", False, 0),)
        few = line_of(processes(4))
        assert lane(few.nodes[0], few.seconds, chart).rows == ()
        failed = line_of(processes(8, code=3))
        assert lane(failed.nodes[0], failed.seconds, chart).rows == (("rank 0", True, 0),)
