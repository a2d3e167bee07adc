"""From events to a timeline: figures at their limits, attempts, roles, and whose failure ended the job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ma_boot.report.timeline.events import clocked, moment, printable
from tests.synthetic import Writer
from tests.unit.report.page.seen import line_of, run_of


def numbered(number: int) -> Writer:
    node = Writer(number, 10**12)
    node.at(0, "phase-start", phase="job")
    return node


def only(kind: str, **fields: Any) -> Writer:
    node = numbered(0)
    node.at(1, kind, **fields)
    return node


@pytest.mark.parametrize(
    ("kind", "fields", "label", "text"),
    [
        ("kill", {"left": ["rank 0"], "signal": 64}, "rank 0", "signal 64"),
        ("kill", {"left": ["rank 0", 1], "signal": 65}, "rank 0", "signal 0"),
        ("kill", {"left": "rank 0"}, "", "signal 0"),
        ("unkillable", {"left": ["rank 0", "rank 1"]}, "rank 0, rank 1", ""),
        ("left-over", {"pids": [7, 8]}, "", "2"),
        ("left-over", {"pids": "7"}, "", "0"),
        ("left-over", {}, "", "0"),
        ("dropped", {"lines": 10**15}, "", "1000000000000000"),
        ("dropped", {"lines": 10**15 + 1}, "", "0"),
        ("dropped", {}, "", "0"),
        ("restored", {"step": "s" * 41, "source": "obs"}, "s" * 40, "obs"),
        ("restored", {}, "–", ""),
        ("checkpoints", {"published": "p" * 41, "whole": "w" * 41}, "p" * 40, f"complete: {'w' * 40}"),
        ("checkpoints", {}, "–", "complete: –"),
        (
            "checkpoints",
            {"whole": "20", "before": "b" * 41, "age": 0},
            "–",
            f"complete: 20 · {'b' * 40}: 0.0 s",
        ),
        ("checkpoints", {"before": "10", "age": 1e9}, "–", "complete: – · 10: 277777 h 46 min"),
        ("checkpoints", {"before": "10", "age": 1e9 + 0.5}, "–", "complete: –"),
        ("checkpoints", {"before": "10"}, "–", "complete: –"),
        ("checkpoints", {"age": 7}, "–", "complete: –"),
        ("restart", {"reason": "rank 0 ended"}, "", "rank 0 ended"),
        ("stop", {"reason": "rank 0 ended"}, "", "rank 0 ended"),
        (
            "slow rank",
            {"rank": 3, "step_time": 1.9, "others": 1.2},
            "rank 3",
            "1.90 s a step, the others 1.20 s",
        ),
        ("slow rank", {"rank": 3, "step_time": 1.9}, "rank 3", ""),
        (
            "slow rank",
            {"rank": 3, "step_time": 1e9, "others": 1e9},
            "rank 3",
            "1000000000.00 s a step, the others 1000000000.00 s",
        ),
        ("slow rank", {"rank": 3, "step_time": 1e9 + 0.5, "others": 1.0}, "rank 3", ""),
        ("slow rank", {"rank": 3, "step_time": 1.0, "others": 1e9 + 0.5}, "rank 3", ""),
        ("loss not finite", {"label": "rank 3", "step": 120, "loss": "nan"}, "rank 3", "nan, step 120"),
        (
            "loss not finite",
            {"label": "l" * 61, "step": 1, "loss": "x" * 11},
            "l" * 60,
            "x" * 10 + ", step 1",
        ),
        ("loss not finite", {"label": "rank 3", "step": None, "loss": "-inf"}, "rank 3", "-inf, step –"),
    ],
)
def test_text_of_an_incident(kind: str, fields: Any, label: str, text: str) -> None:
    """Whatever is missing or impossible is left out."""
    assert run_of(only(kind, **fields)).incidents == ((kind, 1.0, 0, label, text),)


@pytest.mark.parametrize(
    ("kind", "field", "most"),
    [
        ("start", "label", 1200),
        ("transfer", "files", 1200),
        ("fault", "fault", 200),
        ("stacks", "folded", 20),
    ],
)
def test_of_very_many_the_last_are_kept(kind: str, field: str, most: int) -> None:
    node = Writer(0, 10**12)
    for index in range(most + 1):
        node.at(index, kind, direction="upload", **{field: index if field == "files" else f"{index}"})
    run = run_of(node)
    kept: Any = {
        "start": run.processes,
        "transfer": run.transfers,
        "fault": run.incidents,
        "stacks": run.stacks,
    }
    assert len(kept[kind]) == most
    first = kept[kind][0]
    assert (first.at if kind in ("fault", "stacks") else first.start) == 1.0


def test_of_very_many_incidents_of_the_job_the_last_are_kept() -> None:
    job = "".join(
        f'{{"kind": "fault", "fault": "{index}", "time": {index}, "node": null}}\n' for index in range(201)
    )
    incidents = line_of(job).incidents
    assert (len(incidents), incidents[0].text, incidents[0].node) == (200, "1", None)


@pytest.mark.parametrize(
    ("count", "finished", "kept", "first"),
    [
        (399, True, 399, 1),
        (400, True, 200, 1),
        (801, True, 267, 1),
        (400, False, 400, 1),
        (401, False, 400, 2),
    ],
)
def test_the_samples_of_a_long_transfer_are_thinned(
    count: int, finished: bool, kept: int, first: int
) -> None:
    node = Writer(0, 10**12)
    for index in range(1, count + 1):
        node.at(index, "progress", direction="download", bytes_done=index)
    if finished:
        node.at(count, "transfer", direction="download", files=1, bytes=count, seconds=count)
    (transfer,) = run_of(node).transfers
    assert (len(transfer.samples), transfer.samples[0][1]) == (kept, first)
    assert (transfer.end is not None, transfer.bytes) == (finished, count)


def test_a_published_step_is_an_upload() -> None:
    node = Writer(0, 10**12)
    node.at(0, "phase-start", phase="run")
    node.at(30, "checkpoint", step="20", files=2, bytes=542_750, seconds=0.5)
    (sent,) = run_of(node).transfers
    assert (sent.direction, sent.files, sent.bytes, sent.end) == ("upload", 2, 542_750, 30.0)
    assert sent.start == 29.5


def test_a_transfer_that_goes_on_has_what_has_been_moved() -> None:
    node = Writer(0, 10**12)
    node.at(3, "progress", direction="download", bytes_done=5)
    node.at(4, "progress", direction="download", bytes_done=10**18)
    node.at(5, "progress", direction="download", bytes_done=10**18 + 1)
    (transfer,) = run_of(node).transfers
    assert (transfer.start, transfer.end, transfer.files) == (0.0, None, 0)
    assert transfer.samples == ((0.0, 5), (1.0, 10**18))
    assert (transfer.bytes, transfer.retries, transfer.by_length) == (10**18, 0, 0)


@pytest.mark.parametrize(
    ("seconds", "start"), [(2.0, 8.0), (1e9, 0.0), (1e9 + 0.5, 10.0), (20.0, 0.0), (None, 10.0)]
)
def test_an_activity_with_only_an_end_began_its_seconds_before(seconds: float | None, start: float) -> None:
    """Not before the job; and a duration of more than thirty years is none."""
    node = Writer(0, 10**12)
    node.at(0, "phase-start", phase="job")
    node.at(10, "phase-end", phase="inputs", seconds=seconds, outcome="done")
    node.at(10, "transfer", direction="upload", seconds=seconds)
    node.at(10, "exit", label="rank 0", seconds=seconds, code=0)
    run = run_of(node)
    phase, process, transfer = run.phases[1], run.processes[0], run.transfers[0]
    spans = [(phase.start, phase.end), (process.start, process.end), (transfer.start, transfer.end)]
    assert spans == [(start, 10.0)] * 3


def test_an_end_without_any_start_is_a_phase() -> None:
    node = Writer(0, 10**12)
    node.at(3, "phase-end", phase="inputs", seconds=2, outcome="done")
    assert [(phase.name, phase.outcome) for phase in run_of(node).phases] == [("inputs", "done")]


def test_a_command_and_the_places_of_a_mapping_are_cut() -> None:
    job = '{"kind": "rehearsal", "command": "' + "c" * 4001 + '", "time": 1, "node": null}\n'
    assert line_of(job).command == "c" * 4000
    assert run_of(only("job", command="c" * 4001)).command == "c" * 4000
    node = Writer(0, 10**12)
    node.at(1, "routes", inputs=[["l" * 501, "u" * 501], ["only"], [], "x"], outputs="x")
    places = [(place.direction, len(place.local), len(place.url)) for place in run_of(node).places]
    assert places == [("input", 500, 500), ("input", 4, 0)]


def test_the_end_of_a_phase_is_that_of_the_latest_that_goes_on() -> None:
    node = Writer(0, 10**12)
    for at, kind, phase in ((0, "start", "run"), (1, "start", "job"), (2, "start", "run"), (3, "end", "run"), (4, "end", "run"), (5, "end", "run")):  # fmt: skip
        node.at(at, f"phase-{kind}", phase=phase)
    # a second job begins a second run, whose phases know nothing of the first one's
    first, second = line_of(node).nodes[0].runs
    assert [(phase.name, phase.start, phase.end) for phase in first.phases] == [("run", 0.0, None)]
    assert [(phase.name, phase.start, phase.end) for phase in second.phases] == [
        ("job", 1.0, None),
        ("run", 2.0, 3.0),
        ("run", 4.0, 4.0),
        ("run", 5.0, 5.0),
    ]


def test_times_that_the_kernel_gave_count_but_not_before_the_start() -> None:
    node = Writer(0, 10**12)
    node.at(0, "phase-start", phase="job")
    for rank in (0, 1):
        node.at(10, "start", label=f"rank {rank}", rank=rank)
    node.at(20, "first-output", label="rank 0", first_ns=node.ns(15))
    node.at(20, "first-output", label="rank 1", first_ns=node.ns(5))
    node.at(20, "first-output", label="unknown", first_ns=node.ns(5))
    node.at(30, "exit", label="rank 0", ended_ns=node.ns(25), code=0)
    node.at(30, "exit", label="rank 1", ended_ns=node.ns(5), code=0)
    assert [(process.start, process.first_output, process.end) for process in run_of(node).processes] == [
        (10.0, 15.0, 25.0),
        (10.0, 10.0, 10.0),
    ]


def test_the_first_output_belongs_to_a_process_whose_name_was_cut_too() -> None:
    node = Writer(0, 10**12)
    node.at(0, "start", label="n" * 70, rank=0)
    node.at(1, "first-output", label="n" * 70)
    (process,) = run_of(node).processes
    assert (process.first_output, process.stopped, process.failed) == (1.0, False, False)


class TestClocks:
    """The wall clock of the first event, the monotonic clock from then on."""

    def times(self, *events: Any) -> list[float]:
        return [at for at, _ in clocked(tuple({"kind": "x", **event} for event in events))]

    def test_an_event_without_a_time_has_that_of_its_neighbour(self) -> None:
        assert self.times({}, {"time": 50.0}, {}, {"time": 60.0}) == [50.0, 50.0, 50.0, 60.0]
        assert self.times({}, {}) == [0.0, 0.0]

    def test_setting_the_wall_clock_does_not_matter(self) -> None:
        steady = 5 * 10**9
        assert self.times(
            {"time": 100.0, "monotonic_ns": steady},
            {"time": 900.0, "monotonic_ns": steady + 10**9},
            {"monotonic_ns": steady + 2 * 10**9},
            {"time": 70.0},
        ) == [100.0, 101.0, 102.0, 100.0]

    def test_impossible_clocks_are_none(self) -> None:
        assert self.times({"time": 4e9}) == [4e9]
        assert self.times({"time": 4e9 + 0.5}) == [0.0]
        assert self.times({"time": 1e9, "monotonic_ns": 1e19}, {"monotonic_ns": 1e19}) == [1e9, 1e9]
        assert self.times({"time": 1e9, "monotonic_ns": 2e19}, {"monotonic_ns": 2e19}) == [1e9, 1e9]
        assert moment({"monotonic_ns": 3e9, "at": 1e9}, "at", 100.0) == 98.0
        assert moment({"monotonic_ns": 3e9}, "at", 100.0) == 100.0
        assert moment({"at": 3e9}, "at", 100.0) == 100.0
        assert moment({"monotonic_ns": 1e19, "at": 2e19}, "at", 100.0) == 100.0


@pytest.mark.parametrize(("value", "known"), [(100_000, True), (100_001, False)])
def test_numbers_of_nodes_have_a_limit(value: int, known: bool) -> None:
    line = line_of(numbered(value), numbered(1))
    assert [node.number for node in line.nodes] == ([1, 100_000] if known else [1])
    node = numbered(0)
    node.at(1, "job", name="n" * 201, nodes=value, schedule_count=value)
    line = line_of(node)
    assert line.schedules == (value if known else 1)
    assert line_of(only("job", name="j")).schedules == line_of(numbered(0)).schedules == 1
    assert (line.expected_nodes, line.job) == (value if known else None, "n" * 200)


@given(st.text(st.characters()))
def test_a_page_holds_characters_of_xml_but_no_further_controls(text: str) -> None:
    """https://www.w3.org/TR/xml/#charsets, without carriage returns and the controls that it discourages.

    Nor those that reorder or hide a text: Unicode's Bidi_Control and Zs, Zl, Zp without width.
    """
    allowed = [(0x9, 0xA), (0x20, 0x7E), (0xA0, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF)]
    hiding = {0x061C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF}
    kept = [
        char
        for char in text
        if ord(char) not in hiding and any(least <= ord(char) <= most for least, most in allowed)
    ]
    assert printable(text) == "".join(kept)
