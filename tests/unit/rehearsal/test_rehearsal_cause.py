"""How a rehearsal ended: the cause that the first failing node has reported, in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ma_boot.errors import CannotCreate
from ma_boot.rehearsal.platform import SimulatedJob
from ma_boot.rehearsal.summary import cause, job_end_event
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


def test_a_node_that_could_not_be_started_is_the_cause(tmp_path: Path) -> None:
    run = RunResult((), CannotCreate("cannot write /log: No space left on device"))
    assert job_end_event(SimulatedJob("uuid", str(tmp_path), 1, 1), run, []) == {
        "exit_code": 73,
        "by": "ma_boot",
        "cause": "cannot write /log: No space left on device",
        "label": None,
        "signal": None,
    }
