"""From events to a timeline: figures at their limits, attempts, roles, and whose failure ended the job."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import pytest

from ma_boot.reporting.timeline import BootRun, ProcessSpan, Timeline, read_events, timeline_of
from ma_boot.reporting.timeline.events import clocked, moment, number
from tests.synthetic import Writer


def line_of(*nodes: Writer) -> Timeline:
    return timeline_of([read_events(node.text(), lambda text: text) for node in nodes])


def run_of(node: Writer) -> BootRun:
    ((run,),) = (found.runs for found in line_of(node).nodes)
    return run


def only(kind: str, **fields: Any) -> Writer:
    node = Writer(0, 10**12)
    node.at(0, "phase-start", phase="job")
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
        ("channel", {"files": 10**12, "bytes": 10**18}, " ", "1000000000000 files, 1000.0 PB · "),
        ("channel", {"files": 10**12 + 1}, " ", "no files · "),
        ("channel", {"files": 1, "bytes": 10**18 + 1}, " ", "1 files, 0 B · "),
        ("channel", {}, " ", "no files · "),
        ("restored", {"step": "s" * 41, "source": "obs"}, "s" * 40, "obs"),
        ("restored", {}, "–", ""),
        ("checkpoints", {"published": "p" * 41, "whole": "w" * 41}, "p" * 40, f"whole: {'w' * 40}"),
        ("checkpoints", {}, "–", "whole: –"),
        ("checkpoints", {"whole": "20", "before": "b" * 41, "age": 0}, "–", f"whole: 20 · {'b' * 40}: 0.0 s"),
        ("checkpoints", {"before": "10", "age": 1e9}, "–", "whole: – · 10: 277777:46:40 h"),
        ("checkpoints", {"before": "10", "age": 1.000001e9}, "–", "whole: –"),
        ("checkpoints", {"before": "10"}, "–", "whole: –"),
        ("checkpoints", {"age": 7}, "–", "whole: –"),
        ("restart", {"reason": "rank 0 ended"}, "", "rank 0 ended"),
        ("stop", {"reason": "rank 0 ended"}, "", "rank 0 ended"),
    ],
)
def test_what_an_incident_says(kind: str, fields: Any, label: str, text: str) -> None:
    """Whatever is missing or impossible is left out."""
    (found,) = run_of(only(kind, **fields)).incidents
    assert (found.kind, found.at, found.node, found.label, found.text) == (kind, 1.0, 0, label, text)


def test_of_very_many_the_last_are_kept() -> None:
    node = Writer(0, 10**12)
    for index in range(1201):
        node.at(index, "start", label=f"rank {index}", rank=index)
        node.at(index, "transfer", direction="upload", files=index)
    for index in range(201):
        node.at(index, "fault", fault=str(index))
    run = run_of(node)
    assert (len(run.processes), run.processes[0].label) == (1200, "rank 1")
    assert (len(run.transfers), run.transfers[0].files) == (1200, 1)
    assert (len(run.incidents), run.incidents[0].text) == (200, "1")
    job = "".join(
        f'{{"kind": "fault", "fault": "{index}", "time": {index}, "node": null}}\n' for index in range(201)
    )
    incidents = timeline_of([read_events(job, lambda text: text)]).incidents
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


def test_a_transfer_that_goes_on_has_what_has_been_moved() -> None:
    node = Writer(0, 10**12)
    node.at(3, "progress", direction="download", bytes_done=5)
    node.at(4, "progress", direction="download", bytes_done=10**18)
    node.at(5, "progress", direction="download", bytes_done=10**18 + 1)
    (transfer,) = run_of(node).transfers
    assert (transfer.start, transfer.end, transfer.files) == (0.0, None, 0)
    assert transfer.samples == ((0.0, 5), (1.0, 10**18))
    assert (transfer.bytes, transfer.retries, transfer.by_length) == (10**18, 0, 0)


@pytest.mark.parametrize(("seconds", "begin"), [(2.0, 8.0), (1e10, 10.0), (20.0, 0.0), (None, 10.0)])
def test_what_has_only_an_end_began_its_seconds_before(seconds: Optional[float], begin: float) -> None:
    """Not before the job; and a duration of more than thirty years is none."""
    node = Writer(0, 10**12)
    node.at(0, "phase-start", phase="job")
    node.at(10, "phase-end", phase="inputs", seconds=seconds, outcome="done")
    node.at(10, "transfer", direction="upload", seconds=seconds)
    node.at(10, "exit", label="rank 0", seconds=seconds, code=0)
    run = run_of(node)
    spans = [run.phases[1], run.processes[0], run.transfers[0]]
    assert [(span.start, span.end) for span in spans] == [(begin, 10.0)] * 3


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
    assert [(one.start, one.first_output, one.end) for one in run_of(node).processes] == [
        (10.0, 15.0, 25.0),
        (10.0, 10.0, 10.0),
    ]


class TestClocks:
    """The wall clock of the first event, the monotonic clock from then on."""

    def times(self, *events: Any) -> List[float]:
        return [at for at, _ in clocked(tuple({"kind": "x", **event} for event in events))]

    def test_what_has_no_time_has_that_of_its_neighbour(self) -> None:
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
        assert self.times({"time": 4.1e9}) == [0.0]
        assert self.times({"time": 1e9, "monotonic_ns": 1e19}, {"monotonic_ns": 1e19}) == [1e9, 1e9]
        assert self.times({"time": 1e9, "monotonic_ns": 2e19}, {"monotonic_ns": 2e19}) == [1e9, 1e9]
        assert moment({"monotonic_ns": 3e9, "at": 1e9}, "at", 100.0) == 98.0
        assert moment({"monotonic_ns": 3e9}, "at", 100.0) == 100.0
        assert moment({"at": 3e9}, "at", 100.0) == 100.0
        assert moment({"monotonic_ns": 1e19, "at": 2e19}, "at", 100.0) == 100.0

    def test_no_number_is_negative(self) -> None:
        assert number({"a": -0.5}, "a") is None
        assert number({"a": float("nan")}, "a") is None


class Training(Writer):
    """A node whose ranks end; times are those of the node."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number, 10**12)
        self.at(0, "phase-start", phase="job")

    def ran(
        self, rank: Optional[int], start: float, end: float, code: int, stopped: bool = False, label: str = ""
    ) -> None:
        label = label or f"rank {rank}"
        self.at(start, "start", label=label, rank=rank)
        self.at(end, "exit", label=label, rank=rank, code=code, stopped=stopped)

    def ends(self, at: float, code: int, by: str = "training", **more: Any) -> None:
        self.at(at, "end", exit_code=code, by=by, **more)


def roles(line: Timeline) -> List[List[Tuple[str, str]]]:
    return [[(one.label, one.role) for run in node.runs for one in run.processes] for node in line.nodes]


class TestRoles:
    """Each attempt has its cause; the job has one."""

    def test_the_first_failure_of_an_attempt_that_was_repeated_is_its_cause(self) -> None:
        node = Training()
        for rank, end, code, stopped in ((0, 7, 1, False), (1, 5, 3, False), (2, 8, 143, True)):
            node.ran(rank, 1, end, code, stopped)
        for rank in range(3):
            node.ran(rank, 11, 20, 0)
        node.ends(21, 0)
        before, after = roles(line_of(node))[0][:3], roles(line_of(node))[0][3:]
        assert before == [("rank 0", "followed"), ("rank 1", "cause"), ("rank 2", "stopped")]
        assert {role for _, role in after} == {"well"}

    def test_each_of_three_attempts_has_its_own(self) -> None:
        node = Training()
        for attempt in range(3):
            node.ran(0, 10 * attempt + 1, 10 * attempt + 6, 1)
            node.ran(1, 10 * attempt + 1, 10 * attempt + 5, 1)
        node.ends(30, 1, label="rank 1")
        assert [role for _, role in roles(line_of(node))[0]] == ["followed", "cause"] * 3

    def test_a_run_that_another_one_followed_has_its_own_and_stays(self) -> None:
        first, second = Training(), Training()
        first.ran(0, 1, 5, 3)
        first.ends(6, 3)
        second.entries = []
        second.at(10, "phase-start", phase="job")
        second.ran(0, 11, 15, 4)
        second.ends(16, 4, label="rank 0")
        text = first.text() + second.text()
        line = timeline_of([read_events(text, lambda text: text)])
        assert [run.exit_code for run in line.nodes[0].runs] == [3, 4]
        assert roles(line) == [[("rank 0", "cause"), ("rank 0", "cause")]]
        assert (line.outcome.exit_code, line.outcome.node, line.earlier_runs) == (4, 0, 0)

    def test_of_two_nodes_that_failed_the_first_is_the_cause(self) -> None:
        nodes = [Training(number) for number in range(3)]
        for node, end in zip(nodes, (8, 5, 9)):
            node.ran(node.node, 1, end, 3)
            node.ends(20 - end, 3, label=f"rank {node.node}")
        line = line_of(*nodes)
        assert roles(line) == [[("rank 0", "followed")], [("rank 1", "cause")], [("rank 2", "followed")]]
        assert (line.outcome.node, line.outcome.process) == (1, line.nodes[1].runs[0].processes[0])

    @pytest.mark.parametrize(
        ("code", "stopped", "role"),
        [(0, True, "well"), (143, True, "stopped"), (1, True, "followed"), (143, False, "followed")],
    )
    def test_beside_a_failure(self, code: int, stopped: bool, role: str) -> None:
        node = Training()
        node.ran(0, 1, 5, 3)
        node.ran(1, 1, 6, code, stopped)
        node.ends(7, 3, label="rank 0")
        assert roles(line_of(node)) == [[("rank 0", "cause"), ("rank 1", role)]]

    def test_what_was_stopped_alone_was_stopped_whatever_its_code(self) -> None:
        node = Training()
        node.ran(0, 1, 5, 1, stopped=True)
        node.at(6, "start", label="rank 1", rank=1)
        node.ends(7, 143, by="signal", signal=15)
        assert roles(line_of(node)) == [[("rank 0", "stopped"), ("rank 1", "unknown")]]


class TestOutcome:
    """Whose exit code is that of the job."""

    def test_the_process_that_the_node_named_is_the_cause(self) -> None:
        node = Training()
        node.ran(0, 1, 5, 1)
        node.ran(1, 1, 6, 3)
        node.ends(7, 3, label="rank 1", cause="rank 1 ended with exit code 3")
        outcome = line_of(node).outcome
        assert isinstance(outcome.process, ProcessSpan)
        assert (outcome.process.label, outcome.process.role) == ("rank 1", "cause")
        assert (outcome.exit_code, outcome.by, outcome.cause) == (
            3,
            "training",
            "rank 1 ended with exit code 3",
        )

    def test_a_failure_counts_before_a_stop_and_before_an_error_of_a_later_node(self) -> None:
        stopped, failed, late = Training(0), Training(1), Training(2)
        stopped.ends(3, 143, by="signal", signal=15)
        failed.ran(1, 1, 5, 3)
        failed.ends(30, 3, label="rank 1")
        late.ends(6, 74, by="output")
        outcome = line_of(stopped, failed, late).outcome
        assert (outcome.node, outcome.exit_code, outcome.by) == (1, 3, "training")
        outcome = line_of(stopped, late).outcome
        assert (outcome.node, outcome.exit_code, outcome.process) == (2, 74, None)

    def test_a_job_that_has_not_ended_everywhere_has_no_code(self) -> None:
        well, open_end = Training(0), Training(1)
        well.ends(5, 0)
        assert line_of(well).outcome.exit_code == 0
        assert line_of(well, open_end).outcome.exit_code is None

    def test_the_rehearsal_knows_better(self) -> None:
        node = Training(0)
        node.ends(5, 0)
        long = "n" * 70
        job = Writer(0, 10**12)
        job.at(1, "start", label=long, log_file="/log/node")
        job.at(6, "job-end", exit_code=255, by="node", label=long, cause="c" * 3001, signal=64)
        text = job.text().replace('"node": 0', '"node": null')
        outcome = timeline_of([read_events(node.text(), lambda t: t), read_events(text, lambda t: t)]).outcome
        assert (outcome.exit_code, outcome.by, outcome.label) == (255, "node", "n" * 60)
        assert (len(outcome.cause), outcome.signal, outcome.node) == (3000, 64, None)
        assert outcome.process is not None
        assert (outcome.process.log_file, outcome.process.role) == ("/log/node", "cause")
        same = timeline_of(
            [read_events(node.text(), lambda t: t), read_events(text.replace("255", "0"), lambda t: t)]
        ).outcome
        assert (same.exit_code, same.label) == (0, "")
        impossible = timeline_of(
            [read_events(node.text(), lambda t: t), read_events(text.replace("255", "256"), lambda t: t)]
        ).outcome
        assert impossible.exit_code == 0


@pytest.mark.parametrize(("value", "known"), [(100_000, True), (100_001, False)])
def test_numbers_of_nodes_have_a_limit(value: int, known: bool) -> None:
    line = line_of(Training(value), Training(1))
    assert [node.number for node in line.nodes] == ([1, 100_000] if known else [1])
    node = Training()
    node.at(1, "job", name="n" * 201, nodes=value)
    line = line_of(node)
    assert (line.expected_nodes, line.job) == (value if known else None, "n" * 200)
