"""Which run, which hang and which cause counts where a node has several."""

from __future__ import annotations

from typing import Callable, Optional

import pytest

from ma_boot.reporting.page.compose import _fitting, page_text
from ma_boot.reporting.page.fill import Html
from ma_boot.reporting.page.headline import headline, said
from ma_boot.reporting.page.lanes import Chart, lane
from ma_boot.reporting.page.language import INCIDENTS
from ma_boot.reporting.page.sections import commands, place_rows
from ma_boot.reporting.timeline import Timeline, read_events, timeline_of
from tests.synthetic import Writer, small_job, synthetic_job


def run_twice(written: Callable[[Writer, int], None]) -> Timeline:
    """The second run begins 100 s after the first one."""
    text = ""
    for number in range(2):
        node = Writer(0, 10**12)
        node.at(100 * number, "phase-start", phase="job")
        written(node, number)
        text += node.text()
    return timeline_of([read_events(text, lambda text: text)])


def test_the_cause_of_the_job_is_what_the_last_run_was_told() -> None:
    def written(node: Writer, number: int) -> None:
        node.at(100 * number + 1, "job cause", cause={"node": number, "words": "ValueError: x"})
        node.at(100 * number + 2, "end", exit_code=143, by="signal", signal=15)

    assert said(run_twice(written), "").en == "node 1: ValueError: x"


def test_a_node_that_was_run_again_and_left_no_end_is_silent() -> None:
    def written(node: Writer, number: int) -> None:
        if number == 0:
            node.at(1, "end", exit_code=3, by="training")

    assert "node 0 recorded no end" in headline(run_twice(written)).en


def test_inputs_are_those_of_the_last_run() -> None:
    def written(node: Writer, number: int) -> None:
        node.at(100 * number + 1, "routes", inputs=[[f"data-{number}", "obs://b/"]], outputs=[])

    assert [row.local for row in place_rows(run_twice(written))] == ["data-1"]


def test_a_phase_without_an_end_ends_with_its_run() -> None:
    def written(node: Writer, number: int) -> None:
        node.at(100 * number + 10, "phase-start", phase="run")
        node.at(100 * number + (50 if number == 0 else 100), "stop", reason="SIGTERM received")

    line = run_twice(written)
    boxes = lane(line.nodes[0], line.seconds, Chart.of(line)).phases
    assert [box.duration for box in boxes if box.name.en == "run"] == ["40.0 s", "90.0 s"]


def hung(*labels: str) -> Timeline:
    """A node whose processes hung, one after the other; at the last one it ended."""
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    for number, label in enumerate(labels):
        node.at(10 * number + 2, "hang", labels=[label])
        suspect = {"node": 0, "rank": number, "why": f"is in f{number}"}
        node.at(10 * number + 3, "stacks", folded=[], suspect=suspect)
    node.at(100, "end", exit_code=124, by="ma_boot", cause="hung")
    return timeline_of([read_events(node.text(), lambda text: text)])


def test_of_several_hangs_the_last_ended_the_job() -> None:
    line = hung("rank 0", "rank 1")
    assert headline(line).en == "Rank 1 on node 0 hung."
    assert said(line, "").en == "node 0, rank 1 is in f1"


def test_each_of_eight_processes_that_hung_has_its_dot() -> None:
    node = Writer(0, 10**12)
    for rank in range(10):
        node.at(1, "start", label=f"rank {rank}", rank=rank)
    node.at(5, "hang", labels=[f"rank {rank}" for rank in range(10)])
    line = timeline_of([read_events(node.text(), lambda text: text)])
    assert len(lane(line.nodes[0], line.seconds, Chart.of(line)).incidents) == 8


@pytest.mark.parametrize(("code", "words"), [(1, "ValueError: x"), (0, ""), (None, "")])
def test_only_a_failure_has_words(code: Optional[int], words: str) -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    node.at(2, "end", exit_code=code, by="training", cause="ended", words="ValueError: x")
    assert said(timeline_of([read_events(node.text(), lambda text: text)]), "").en == words


@pytest.mark.parametrize(
    ("end", "code", "title"),
    [
        ({"exit_code": 3, "by": "training", "cause": "x"}, "exit code 3", "<title>ma_boot: exit code 3</title>"),
        (None, "no exit code", "<title>ma_boot: end unknown</title>"),
    ],
)  # fmt: skip
def test_the_page_has_the_exit_code_if_there_is_one(end: object, code: str, title: str) -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    if isinstance(end, dict):
        node.at(2, "end", **end)
    page = page_text(timeline_of([read_events(node.text(), lambda text: text)]), {})
    assert title in page
    assert f'<span class="en">{code}</span>' in page
    assert "Last output of" not in page


def test_what_the_headline_says_is_not_said_again_below_it() -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    cause = "not every output was uploaded:\n  - a: HTTP 403\n  - b: HTTP 404\n  - c: HTTP 500"
    node.at(2, "end", exit_code=74, by="output", cause=cause)
    page = page_text(timeline_of([read_events(node.text(), lambda text: text)]), {})
    assert [page.count(f"{name}: HTTP") // 2 or page.count(f"{name}: HTTP") for name in "abc"] == [1, 1, 1]
    reason = page[page.index('<div class="reason">') :].partition("</div>")[0]
    assert ("a: HTTP" in reason, "b: HTTP" in reason, "c: HTTP" in reason) == (False, True, True)


@pytest.mark.parametrize("rehearsed", [False, True])
def test_how_a_rehearsal_was_started_is_shown(rehearsed: bool) -> None:
    node = Writer(0, 10**12)
    node.at(0, "job", name="j", command="ma_boot train.py")
    files = [node.text()]
    if rehearsed:
        files.append(
            '{"kind": "rehearsal", "command": "ma_boot --local train.py", "time": 1, "node": null}\n'
        )
    page = page_text(timeline_of([read_events(text, lambda text: text) for text in files]), {})
    assert "ma_boot train.py" in page
    assert ("on this machine" in page, "ma_boot --local train.py" in page) == (rehearsed, rehearsed)


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
        files.append(node.text())
    line = timeline_of([read_events(file, lambda text: text) for file in files])
    page = page_text(line, {"/log/1032": "the very last words\n" * 300})
    assert len(page.encode()) < 2_000_000
    drawn = page.count("<title>rank ") // 8
    assert 50 < drawn < 130
    assert f"{130 - drawn} more nodes do not fit on this page." in page
    assert "<title>rank 1032: 3" in page
    assert page.count("the very last words") > 300, "in the head, and whole among the logs"


def test_processes_are_those_of_the_last_run() -> None:
    def written(node: Writer, number: int) -> None:
        for rank in range(2 - number):
            node.at(100 * number + 1, "start", label=f"rank {rank}", rank=rank)

    line = run_twice(written)
    assert [process.label for _, process in line.last_processes()] == ["rank 0"]
    assert Chart.of(line).legend[-1].name == INCIDENTS["start"]


def test_the_hang_is_that_of_the_node_that_ended_the_job() -> None:
    files = []
    for number, code in enumerate((124, 143)):
        node = Writer(number, 10**12)
        node.phase("job", 0, 1)
        node.at(2, "hang", labels=[f"rank {number}"])
        node.at(3 + number, "end", exit_code=code, by="signal" if number else "ma_boot", signal=15)
        files.append(read_events(node.text(), lambda text: text))
    assert headline(timeline_of(files)).en == "Rank 0 on node 0 hung."


def test_a_rehearsal_that_ended_by_its_training_names_no_node() -> None:
    job = (
        '{"kind": "job-end", "exit_code": 7, "by": "training", "label": "node 1", "time": 9, "node": null}\n'
    )
    assert (
        headline(timeline_of([read_events(job, lambda text: text)])).en == "The job failed with exit code 7."
    )


@pytest.mark.parametrize(("number", "name"), [(64, "SIGRTMAX"), (65, "SIGTERM")])
def test_the_signal_of_a_rehearsal_is_one_that_there_is(number: int, name: str) -> None:
    end = f'"exit_code": 143, "by": "signal", "signal": {number}, "time": 9, "node": null'
    line = timeline_of([read_events(f'{{"kind": "job-end", {end}}}\n', lambda text: text)])
    assert headline(line).en == f"The job was stopped by {name} from outside."


def test_of_a_rehearsal_that_went_well_there_is_nothing_more_to_say() -> None:
    job = '{"kind": "job-end", "exit_code": 0, "by": "", "cause": "success", "time": 9, "node": null}\n'
    assert said(timeline_of([read_events(job, lambda text: text)]), "").en == ""


def test_without_words_in_the_events_those_of_the_log_count() -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    node.at(2, "end", exit_code=1, by="training", cause="rank 0 ended with exit code 1")
    line = timeline_of([read_events(node.text(), lambda text: text)])
    assert said(line, "ValueError: " + "x" * 500).en == "ValueError: " + "x" * 388
    assert said(line, "").en == ""


def test_each_of_four_commands_is_shown() -> None:
    files = []
    for number in range(5):
        node = Writer(number, 10**12)
        node.at(0, "job", name="j", command=f"ma_boot train-{number}.py")
        files.append(read_events(node.text(), lambda text: text))
    assert [(name.en, text) for name, text in commands(timeline_of(files))] == [
        (f"on node {number}", f"ma_boot train-{number}.py") for number in range(4)
    ]

    def written(node: Writer, number: int) -> None:
        node.at(100 * number + 1, "job", name="j", command=f"command {number}")

    assert [text for _, text in commands(run_twice(written))] == ["command 1"]
    assert 'id="start"' not in page_text(run_twice(lambda node, number: None), {})


def test_a_job_of_half_a_second_takes_half_a_second() -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 0.5)
    assert timeline_of([read_events(node.text(), lambda text: text)]).seconds == pytest.approx(0.5)


def test_a_small_job_has_names_and_heights_and_many_processes_have_none() -> None:
    page = page_text(timeline_of([read_events(file, lambda text: text) for file in small_job()]), {})
    for shown in (
        '<div class="lanes" style="--bar:10px', '<b style="height:40px">0</b>', "<div class=phases style=\"height:40px\">",
        '<i style="height:16px">rank 0</i><i class=hit style="height:16px">rank 1</i>',
    ):  # fmt: skip
        assert shown in page, shown
    assert page_text(timeline_of([read_events(file, lambda text: text) for file in synthetic_job(1, 65)]), {}).count(
        '<div class="lanes dense"'
    ) == 1  # fmt: skip


def test_a_dense_lane_of_26_pixels_has_a_name() -> None:
    node = Writer(0, 10**12)
    node.phase("job", 0, 1)
    for rank in range(5):
        node.at(2, "start", label=f"rank {rank}", rank=rank)
    line = timeline_of([read_events(node.text(), lambda text: text)])
    chart = Chart.of(line)._replace(row=4, dense=True, many=True)
    drawn = lane(line.nodes[0], line.seconds, chart)
    assert (drawn.height, [row.text for row in drawn.rows]) == (26, ["0–4"])


def test_without_phases_there_is_one_row_for_them() -> None:
    node = Writer(0, 10**12)
    node.at(1, "start", label="rank 0", rank=0)
    node.at(2, "end", exit_code=0)
    line = timeline_of([read_events(node.text(), lambda text: text)])
    assert lane(line.nodes[0], line.seconds, Chart.of(line)).phases_height == 20


def test_the_legend_names_twelve_phases() -> None:
    node = Writer(0, 10**12)
    for number in range(13):
        node.phase(f"phase {number}", number, number + 1)
    line = timeline_of([read_events(node.text(), lambda text: text)])
    assert [entry.name.en for entry in Chart.of(line).legend] == [f"phase {number}" for number in range(12)]


def test_what_fits_is_taken_in_the_order_of_interest_until_there_is_no_room() -> None:
    parts = [Html("a" * 5), Html("b" * 10), Html("c" * 3), Html("d" * 5)]
    assert _fitting(parts, [3, 0, 1, 2], 10) == [parts[0], parts[3]]
    assert _fitting(parts, [3, 0, 1, 2], 13) == [parts[0], parts[3]], (
        "the next one does not fit, and none after it"
    )
    assert _fitting(parts, [3], 4) == []


def test_paths_look_like_paths_and_words_do_not() -> None:
    node = Writer(0, 10**12)
    node.at(0, "routes", inputs=[["data", "obs://b/data/"]], outputs=[])
    page = page_text(timeline_of([read_events(node.text(), lambda text: text)]), {})
    assert "<td><code>data</code></td><td><code>obs://b/data/</code></td>" in page
    assert "<td><code>0</code></td>" not in page
