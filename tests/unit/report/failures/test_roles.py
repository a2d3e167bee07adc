"""First failures of an attempt, of a node, and of the job."""

from __future__ import annotations

from typing import Any

from ma_boot.report.timeline.job_timeline import ProcessSpan, Timeline
from tests.synthetic import Writer
from tests.unit.report.page.seen import line_of


class Training(Writer):
    """A node whose ranks end; times are those of the node."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number, 10**12)
        self.at(0, "phase-start", phase="job")

    def ran(
        self, rank: int | None, start: float, end: float, code: int, stopped: bool = False, label: str = ""
    ) -> None:
        label = label or f"rank {rank}"
        self.at(start, "start", label=label, rank=rank)
        self.at(end, "exit", label=label, rank=rank, code=code, stopped=stopped)

    def ends(self, at: float, code: int, by: str = "training", **more: Any) -> None:
        self.at(at, "end", exit_code=code, by=by, **more)


def roles(line: Timeline) -> list[list[tuple[str, str]]]:
    return [
        [(process.label, process.role) for run in node.runs for process in run.processes]
        for node in line.nodes
    ]


class TestRoles:
    """Each attempt has its cause; the job has one."""

    def test_the_first_failure_of_an_attempt_that_was_repeated_is_its_cause(self) -> None:
        node = Training()
        ends = ((0, 7, 1, False), (1, 5, 3, False), (2, 8, 143, True), (3, 9, 1, False), (4, 9, 1, True))
        for rank, end, code, stopped in ends:
            node.ran(rank, 1, end, code, stopped)
        for rank in range(5):
            node.ran(rank, 11, 20, 0)
        node.ends(21, 0)
        before, after = roles(line_of(node))[0][:5], roles(line_of(node))[0][5:]
        assert [role for _, role in before] == ["followed", "cause", "stopped", "followed", "followed"]
        assert {role for _, role in after} == {"well"}

    def test_of_commands_that_failed_at_the_same_moment_one_is_the_cause(self) -> None:
        nodes = [Training(number) for number in range(2)]
        for node in nodes:
            node.ran(None, 1, 5, 3, label="command")
            node.ends(6, 3, label="command")
        assert roles(line_of(*nodes)) == [[("command", "cause")], [("command", "followed")]]

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
        line = line_of(first.text() + second.text())
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

    def test_processes_that_were_all_stopped_are_stopped_with_any_code(self) -> None:
        node = Training()
        node.ran(0, 1, 5, 1, stopped=True)
        node.at(6, "start", label="rank 1", rank=1)
        node.ends(7, 143, by="signal", signal=15)
        assert roles(line_of(node)) == [[("rank 0", "stopped"), ("rank 1", "unknown")]]


class TestOutcome:
    """Exit code of the job."""

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

    def test_of_a_job_that_was_stopped_the_first_failure_is_the_cause(self) -> None:
        node = Training()
        node.ran(0, 6, 7, 7)
        node.ran(1, 6, 6.5, 9)
        node.ends(12, 143, by="signal", signal=15)
        assert roles(line_of(node)) == [[("rank 0", "followed"), ("rank 1", "cause")]]

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
        job.at(-1, "fault", fault="before the first node")
        job.at(1, "start", label=long, log_file="/log/node")
        job.at(6, "job-end", exit_code=255, by="node", label=long, cause="c" * 3001, signal=64)
        text = job.text().replace('"node": 0', '"node": null')
        outcome = line_of(node, text).outcome
        assert (outcome.exit_code, outcome.by, outcome.label) == (255, "node", "n" * 60)
        assert (len(outcome.cause), outcome.signal, outcome.node) == (3000, 64, None)
        assert outcome.process is not None
        assert (outcome.process.log_file, outcome.process.role) == ("/log/node", "cause")
        same = line_of(node, text.replace("255", "0")).outcome
        assert (same.exit_code, same.label) == (0, "")
        assert line_of(node, text.replace("255", "256")).outcome.exit_code == 0, "impossible"
        other = line_of(node, text.replace('"by": "node"', f'"by": "{long}"'))
        assert (other.outcome.by, other.outcome.process) == ("n" * 20, None)
        assert [(incident.at, incident.node) for incident in other.incidents] == [(0.0, None)]
