"""How a rehearsal ended: the cause that the first failing node has reported, in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ma_boot.errors import CannotCreate
from ma_boot.rehearsal.platform import SimulatedJob
from ma_boot.rehearsal.summary import cause, job_end_event, summary_lines
from ma_boot.reporting.result import RunResult, WorkerExit

FAILED = RunResult((WorkerExit("node 0", None, None, 1, 78, None, 0, 1.0, False, "/log"),))


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
    log = Path(job.log_dir(0))
    log.mkdir(parents=True)
    (log / "x-failure.json").write_text(json.dumps({"summary": summary}))
    assert cause(job, FAILED, 78) == f"node 0: {line}"


@pytest.mark.parametrize("text", ["", '{"summary": "no', "[]", "null"])
def test_a_failure_that_was_not_written_whole_is_no_traceback(tmp_path: Path, text: str) -> None:
    job = SimulatedJob("uuid", str(tmp_path), 1, 1)
    log = Path(job.log_dir(0))
    log.mkdir(parents=True)
    (log / "x-failure.json").write_text(text)
    (log / "x-events.jsonl").symlink_to("vanished")
    assert cause(job, FAILED, 78) == "node 0 ended with exit code 78"
    assert (
        summary_lines(job, RunResult((FAILED.exits[0],)), "why", 1.0, None, None, (78, "why"))[-1]
        == "exit code 78: why"
    )


def test_the_row_of_the_run_is_that_of_the_node_that_failed_first(tmp_path: Path) -> None:
    job = SimulatedJob("uuid", str(tmp_path), 2, 1)
    for node, text in enumerate(["rank 0 ended with exit code 1", "rank 1 was killed by SIGSEGV"]):
        log = Path(job.log_dir(node))
        log.mkdir(parents=True)
        event = {"kind": "phase-end", "phase": "run", "outcome": "failed", "seconds": 1.0, "detail": text}
        (log / "x-events.jsonl").write_text(json.dumps({**event, "time": 1.0, "monotonic_ns": 1}) + "\n")
    node_1 = WorkerExit("node 1", None, None, 1, 139, None, 0, 1.0, False, "/log")
    node_0 = WorkerExit("node 0", None, None, 1, 1, None, 1, 1.0, True, "/log")
    run = RunResult((node_1, node_0))
    lines = summary_lines(job, run, cause(job, run, 139), 1.0, None, None, (139, ""))
    row = next(line for line in lines if line.startswith("  run "))
    assert "rank 1 was killed by SIGSEGV" in row


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
