"""Rules of restarts, compared with labels that a person gave to recorded failures.

A file has the label, the exit code and the signal, if any; the source of the output; and that output.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from ma_boot.node.observe.metrics.progress import last_step
from ma_boot.node.peers.job_restart import (
    AttemptEnd,
    FailureSignature,
    RestartPolicy,
    Verdict,
    decide,
    signature_of,
)
from ma_boot.report.cause import cause_of, causes_of
from ma_boot.report.result import WorkerExit

FILES = sorted((Path(__file__).parent / "failures").glob("*.txt"))
# Restarts of a job.
MANY = 9


class Recorded(NamedTuple):
    """A failure as it was recorded."""

    label: str
    code: int
    signal: int | None
    out_of_memory: bool
    output: str


def read(file: Path) -> Recorded:
    head, _, _, output = file.read_text().split("\n", 3)
    label, code, *more = head.split()
    number = next((int(word) for word in more if word.isdecimal()), None)
    return Recorded(label, int(code), number, "oom" in more, output)


def of_attempt(output: str, attempt: int) -> str:
    """The output of another attempt, in which process ids and ports are others, but not codes of CANN."""
    return re.sub(r"\b(?!507\d{3}\b)\d{5,}\b", lambda number: str(int(number[0]) + 1000 * attempt), output)


def verdicts(recorded: Recorded, with_progress: bool = False) -> list[Verdict]:
    """The decisions of a job that fails in this way each time; `with_progress` it saves in between."""
    decided: list[Verdict] = []
    earlier: list[FailureSignature] = []
    while not decided or decided[-1].again:
        attempt = len(decided) + 1
        output = of_attempt(recorded.output, attempt)
        oom = "the kernel killed a process" if recorded.out_of_memory else None
        exit = WorkerExit(
            "rank 3", 3, 3, 77, recorded.code, recorded.signal, 9, 61.0, False, "", output, oom=oom
        )
        cause = cause_of(causes_of([exit], 0, 0.0))
        whole = str(attempt) if with_progress else ""
        ends = {0: AttemptEnd(attempt, whole=whole, seconds=61.0, stepped=last_step(output) is not None)}
        decided.append(decide(attempt, ends, RestartPolicy(MANY, 10.0), cause, earlier))
        earlier.append(signature_of(ends, cause))
    return decided


def is_right(recorded: Recorded) -> bool:
    """Returns whether a job without a newer checkpoint ends or restarts as its label demands."""
    decided = verdicts(recorded)
    restarts, rule = len(decided) - 1, decided[0].rule
    return {
        "hardware": restarts == 0 and rule == "hardware",
        "configuration": restarts == 0 and rule == "configuration",
        "deterministic": restarts <= 1,
        "transient": restarts == 2 and rule == "transient",
        "unknown": restarts in (1, 2),
    }[recorded.label]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rules_agree_with_the_label_of_each_recorded_failure(file: Path) -> None:
    recorded = read(file)
    assert is_right(recorded), verdicts(recorded)


def test_each_label_has_several_failures() -> None:
    labels = [read(file).label for file in FILES]
    assert len(labels) >= 60
    assert {label: labels.count(label) for label in labels if labels.count(label) < 4} == {}


@pytest.mark.parametrize("file", [file for file in FILES if read(file).label in ("transient", "unknown")])
def test_job_that_advances_restarts_until_its_budget_is_used_up(file: Path) -> None:
    decided = verdicts(read(file), with_progress=True)
    assert (len(decided), decided[-1].rule) == (MANY + 1, "budget")


def test_signal_with_a_stack_of_python_may_come_three_times() -> None:
    output = 'Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f (most recent call first):\n  File "/a/train.py", line 3 in f\n'
    assert len(verdicts(Recorded("unknown", 139, 11, False, output))) == 3
