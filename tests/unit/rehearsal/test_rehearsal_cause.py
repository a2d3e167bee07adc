"""The cause of a rehearsal's end, in one line, as the first failing node has reported it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.desk.rehearsal.summary import cause, doubt_in_job, job_end_event, summary_lines, totals
from ma_boot.errors import CannotCreate
from ma_boot.report.doubt import Doubt
from ma_boot.report.result import RunResult, WorkerExit

JOB_START = {"kind": "phase-start", "phase": "job"}
FAILED = RunResult((WorkerExit("node 0", None, None, 1, 78, None, 0, 1.0, False, "/log"),))


def log_dir(job: SimulatedJob, node: int) -> Path:
    """The directory of a node's logs, which is made."""
    directory = Path(job.log_dir(node))
    directory.mkdir(parents=True)
    return directory


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        ("plain words", "plain words"),
        (
            "train.py: no such file\n  - looked for /a\n  - looked for /b",
            "train.py: no such file: looked for /a (and 1 more)",
        ),
        ("a mapping is wrong:\n  - line 1: x", "a mapping is wrong: line 1: x"),
        ("not in OBS:\n  - obs://bucket/a\n  -> look at the name", "not in OBS: obs://bucket/a"),
        ("HTTP 403\n  -> look at the keys", "HTTP 403"),
    ],
)
def test_items_are_counted_and_advice_is_none_of_them(tmp_path: Path, summary: str, line: str) -> None:
    job = SimulatedJob("uuid", str(tmp_path), 1, 1)
    (log_dir(job, 0) / "x-failure.json").write_text(json.dumps({"summary": summary}))
    assert cause(job, FAILED, 78) == f"node 0: {line}"


@pytest.mark.parametrize("text", ["", '{"summary": "no', "[]", "null"])
def test_a_failure_that_was_not_written_whole_is_no_traceback(tmp_path: Path, text: str) -> None:
    job = SimulatedJob("uuid", str(tmp_path), 1, 1)
    log = log_dir(job, 0)
    (log / "x-failure.json").write_text(text)
    (log / "x-events.jsonl").symlink_to("vanished")
    assert cause(job, FAILED, 78) == "node 0 ended with exit code 78"
    assert totals(job, 1.0) == "1 node x 1 device in 1.0 s: 0 processes"


def test_the_totals_are_those_of_the_last_start_of_all_nodes(tmp_path: Path) -> None:
    job = SimulatedJob("uuid", str(tmp_path), 2, 1)
    exits = [{"kind": "exit", "label": "rank 0", "code": 1}, {"kind": "exit", "label": "rank 1", "code": 0}]
    sent = [
        {"kind": "transfer", "direction": "upload", "files": 2, "bytes": 1000},
        {"kind": "checkpoint", "step": "8", "files": 1, "bytes": 500},
        {"kind": "channel", "direction": "input", "files": 70, "bytes": 70},
    ]
    of_nodes = (
        [JOB_START, exits[0], JOB_START, {"kind": "restored", "step": "7"}, {**exits[0], "code": 0}],
        [JOB_START, *sent, {**exits[1], "code": 143, "stopped": True}, exits[1]],
    )
    for node, events in enumerate(of_nodes):
        (log_dir(job, node) / "x-events.jsonl").write_text(
            "".join(json.dumps(event) + "\n" for event in events)
        )
    assert totals(job, 168.4) == (
        "2 nodes x 1 device in 2 min 48 s: 2 processes ended with 0; resumed from step 7; outputs: 3 files, 1.5 kB"
    )
    with Path(job.log_dir(1), "x-events.jsonl").open("a") as file:
        file.write(json.dumps(exits[0]) + "\n" + json.dumps({**exits[1], "code": 9, "stopped": True}) + "\n")
    assert "2 processes" not in totals(job, 1.0)
    assert "3 processes, 1 ended with 0, 1 failed, 1 stopped;" in totals(job, 1.0)


def test_only_a_failure_needs_the_logs() -> None:
    assert summary_lines("dir", "totals", True, 0, "success") == [
        "totals",
        "page: dir/report.html",
        "exit code 0: success",
    ]
    assert summary_lines("dir", "totals", False, 3, "why") == [
        "totals",
        "logs: dir/node-*/home/ma-user/modelarts/log",
        "exit code 3: why",
    ]


def test_a_doubt_about_a_success_is_that_of_the_last_start(tmp_path: Path) -> None:
    job = SimulatedJob("uuid", str(tmp_path), 2, 1)
    doubt = Doubt("command", None, "ValueError: x", "code/train.py:3", "/log/command.txt")
    doubtful = {"kind": "end", "exit_code": 0, "doubt": doubt.fields()}
    well = {"kind": "end", "exit_code": 0, "doubt": None}
    for node, events in enumerate(([JOB_START, doubtful, JOB_START, well], [JOB_START, doubtful])):
        (log_dir(job, node) / "x-events.jsonl").write_text(
            "".join(json.dumps(event) + "\n" for event in events)
        )
    assert doubt_in_job(job) == doubt
    assert cause(job, RunResult(()), 0) == str(doubt)
    assert doubt_in_job(SimulatedJob("uuid", str(tmp_path), 1, 1)) is None


def test_a_doubt_needs_the_logs() -> None:
    lines = summary_lines("dir", "totals", True, exit_code=0, reason="a process failed", is_doubtful=True)
    assert lines[1:] == [
        "logs: dir/node-*/home/ma-user/modelarts/log",
        "page: dir/report.html",
        "exit code 0, but a process failed",
    ]


def test_a_node_that_could_not_be_started_is_the_cause(tmp_path: Path) -> None:
    run = RunResult((), CannotCreate("cannot write /log: No space left on device"))
    why = cause(SimulatedJob("uuid", str(tmp_path), 1, 1), run, 73)
    assert job_end_event(run, [], why, 73) == {
        "exit_code": 73,
        "by": "ma_boot",
        "cause": "cannot write /log: No space left on device",
        "label": None,
        "signal": None,
        "rehearsal_exit_code": 73,
    }
