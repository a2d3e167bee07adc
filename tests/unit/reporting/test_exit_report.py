"""The exit status: the full table of process result, upload result and stop signal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Optional, cast

import pytest

from ma_boot.errors import BootError, CommandNotFound, ExitCode, InputMissing, OutputLost, RankTableTimeout
from ma_boot.modelarts import Channel, ChannelContent
from ma_boot.reporting.cause import Cause
from ma_boot.reporting.exit_report import (
    Ending,
    end_event,
    exit_code,
    exit_status,
    failure_document,
    report_lines,
)
from ma_boot.reporting.journal import PhaseRecord
from ma_boot.reporting.result import CAUSE, FOLLOWED, STOPPED as STOPPED_BY_US, RunResult, WorkerExit


def ended(rank: int, code: int, stopped: bool = False, signum: Optional[int] = None) -> WorkerExit:
    return WorkerExit(
        f"rank {rank}", rank, rank, 100 + rank, code, signum, 1000, 1.5, stopped, "/log", "first\nlast line\n"
    )


WELL = RunResult((ended(0, 0), ended(1, 0)))
FAILED = RunResult((ended(1, 3), ended(0, 143, stopped=True, signum=15)))
KILLED = RunResult((ended(0, 137, signum=9), ended(1, 143, stopped=True, signum=15)))
STOPPED = RunResult((ended(0, 143, stopped=True, signum=15), ended(1, 0, stopped=True)))
UNSTARTED = RunResult(
    (ended(0, 143, stopped=True, signum=15),), CommandNotFound("rank 1 could not be started")
)
LOST = OutputLost("not every output was uploaded")


@pytest.mark.parametrize("lost", [None, LOST])
@pytest.mark.parametrize("stopped_by", [None, 15, 2])
@pytest.mark.parametrize(
    ("run", "alone"), [(WELL, 0), (FAILED, 3), (KILLED, 137), (UNSTARTED, 127)], ids=["well", "3", "9", "127"]
)
def test_signal_before_process_before_upload(
    run: RunResult, alone: int, stopped_by: Optional[int], lost: Optional[OutputLost]
) -> None:
    ending = Ending.of(None, [stopped_by] if stopped_by else [], None, run, lost)
    if stopped_by:
        assert exit_code(ending) == 128 + stopped_by
    elif alone:
        assert exit_code(ending) == alone
    else:
        assert exit_code(ending) == (74 if lost else 0)


@pytest.mark.parametrize(("error", "code"), [(RankTableTimeout("x"), 75), (InputMissing("x"), 66)])
def test_what_ended_the_boot_is_the_code(error: BootError, code: int) -> None:
    assert exit_code(Ending.of(None, [], error, None, LOST)) == code


def test_a_stop_is_never_success() -> None:
    assert exit_code(Ending.of(None, [15], None, STOPPED, None)) == 143


def test_the_cause_is_the_first_process_that_failed_on_its_own() -> None:
    assert FAILED.first_failure is not None
    assert FAILED.first_failure.label == "rank 1"
    assert STOPPED.first_failure is None


def test_the_last_line_has_the_exit_code_and_whose_it_is() -> None:
    lines = report_lines(Ending.of(None, [], None, FAILED, LOST), [PhaseRecord("run", 1.5, "failed", "x")])
    assert lines[-1] == "exit code 3: rank 1 ended with exit code 3 after 1.5 s (the training's own code)"
    assert "  | last line" in lines
    assert "rank 0 was killed by SIGTERM after 1.5 s: stopped by ma_boot" in lines
    assert "not every output was uploaded" in lines


def test_a_rank_that_failed_by_itself_was_not_stopped() -> None:
    exits = (ended(1, 3), ended(0, 1, stopped=True), ended(2, 139, stopped=True, signum=11), FAILED.exits[1])
    run = RunResult(exits)
    assert [run.role(one) for one in exits] == [CAUSE, FOLLOWED, FOLLOWED, STOPPED_BY_US]
    for code in (143, 137, 241, 247):
        assert run.role(ended(4, code, stopped=True)) == STOPPED_BY_US
    answer = ended(0, 1, stopped=True)  # to a stop of the whole job
    assert RunResult((answer,)).role(answer) == STOPPED_BY_US


def test_the_reason_is_in_the_last_line_and_in_no_row() -> None:
    error = InputMissing("inputs: not in OBS\n  - obs://b/k")
    phases = [
        PhaseRecord("job", 0.0, "done", "x"),
        PhaseRecord("inputs", 1.5, "failed", "inputs: not in OBS"),
    ]
    lines = report_lines(Ending.of(None, [], error, None, None), phases)
    assert lines == [
        "job          done          0.0 s  x",
        "inputs       failed        1.5 s",
        "exit code 66: inputs: not in OBS",
        "  - obs://b/k",
    ]


RAISED = 'Traceback (most recent call last):\n  File "x"\n{}\n'


def with_outputs(run: RunResult, *outputs: str) -> RunResult:
    return run._replace(exits=tuple(e._replace(output=text) for e, text in zip(run.exits, outputs)))


def test_the_exception_of_a_rank_that_ended_later_is_reported() -> None:
    run = with_outputs(FAILED, "\n", RAISED.format("ValueError: no data"), "")
    raised = [line for line in report_lines(Ending.of(None, [], None, run, None), []) if "ValueError" in line]
    assert raised == [
        "rank 0 was killed by SIGTERM after 1.5 s: stopped by ma_boot; its last exception: ValueError: no data"
    ]
    assert [
        one["exception"] for one in failure_document(Ending.of(None, [], None, run, None))["processes"]
    ].count("ValueError: no data") == 1


def test_of_a_stopped_node_only_exceptions_are_reported() -> None:
    run = with_outputs(STOPPED, RAISED.format("KeyError: 'x'"), "")
    lines = report_lines(Ending.of(None, [15], None, run, None), [])
    assert len([line for line in lines if "stopped by ma_boot" in line]) == 1
    assert lines[0].endswith("its last exception: KeyError: 'x'")


def test_a_failure_before_a_stop_is_reported() -> None:
    ending = Ending.of(None, [15], None, FAILED, None)
    assert "before that, rank 1 ended with exit code 3" in exit_status(ending).cause


def test_the_summary_for_programs_is_short() -> None:
    document = failure_document(Ending.of(None, [], RankTableTimeout("x" * 5000), None, None))
    assert len(document["summary"]) == 1024
    assert document["exit_code"] == ExitCode.RANK_TABLE_TIMEOUT


@pytest.mark.parametrize(
    ("code", "output", "last"),
    [
        (1, RAISED.format("ValueError: no layer"), "(the training's own code): ValueError: no layer"),
        (2, "python: can't open file 'x.py': [Errno 2] No such file or directory\n\n", "own code): python: can't open file 'x.py': [Errno 2] No such file or directory"),
        (127, "run.sh: line 1: trian: command not found\n", "or one that it runs, does not exist: run.sh: line 1: trian: command not found"),
        (1, '  File "x.py", line 1\n    x y\nSyntaxError: invalid syntax\n', "SyntaxError: invalid syntax"),
        (3, "step 1, error 0.25\nbye\n", "(the training's own code)"),
        (137, "[ERROR] a retry\n", "the kernel counted no OOM kill"),
    ],
)  # fmt: skip
def test_the_last_line_has_what_the_process_said_of_its_end(code: int, output: str, last: str) -> None:
    ending = Ending.of(None, [], None, with_outputs(RunResult((ended(0, code),)), output), None)
    assert report_lines(ending, [])[-1].endswith(last)
    words = end_event(ending)["words"]
    assert last.endswith(words)
    assert bool(words) is (code not in (3, 137))


def test_advice_comes_before_the_last_line() -> None:
    run = with_outputs(FAILED, RAISED.format("OSError: x"), "")._replace(advice=("--workdir code",))
    lines = report_lines(Ending.of(None, [], None, run, None), [])
    assert "  - --workdir code" in lines
    assert lines[-1].endswith("OSError: x")


def test_where_there_is_no_room_only_their_number_is_said() -> None:
    phases = [PhaseRecord(f"phase {number}", 1.0, "done", "") for number in range(14)]
    form = tuple(
        ChannelContent(Channel(f"x{number}", "outputs", "/dir", "obs://b/k"), 1, 1, True)
        for number in range(20)
    )
    lines = report_lines(Ending.of(None, [], None, None, None, form), phases)
    assert lines[14:] == ["and 20 more inputs and outputs", "exit code 0: success"]


@pytest.mark.parametrize(("count", "last"), [(13, "output x12"), (14, "and 2 more inputs and outputs")])
def test_what_just_fits_is_shown(count: int, last: str) -> None:
    form = tuple(
        ChannelContent(Channel(f"x{number}", "outputs", "/dir", "obs://b/k"), 1, 1, True)
        for number in range(count)
    )
    lines = report_lines(Ending.of(None, [], None, None, None, form), [PhaseRecord("run", 1.0, "done", "")])
    assert len(lines) == 15
    assert lines[-2].startswith(last)


def test_the_jobs_cause_takes_a_line_of_the_fifteen() -> None:
    form = tuple(
        ChannelContent(Channel(f"x{number}", "outputs", "/dir", "obs://b/k"), 1, 1, True)
        for number in range(20)
    )
    cause = Cause(3, 27, 1, "ValueError: x", 5.0, place="train.py:7")
    ending = Ending.of(None, [15], None, None, None, form)._replace(cause=cause, agreed=True)
    lines = report_lines(ending, [])
    assert len(lines) == 15
    assert lines[-1] == "the job's cause: node 3, rank 27: ValueError: x, at train.py:7"


def test_a_hang_without_a_failure_is_no_first_failure() -> None:
    document = failure_document(Ending.of(None, [], None, STOPPED._replace(hung=("rank 0",)), None))
    assert (document["exit_code"], document["first_failure"], len(document["processes"])) == (124, None, 2)


def test_the_summary_has_at_most_fifteen_lines() -> None:
    phases = [PhaseRecord(f"phase {number}", 1.0, "done", "") for number in range(8)]
    form = tuple(
        ChannelContent(Channel(f"x{number}", "outputs", "/dir", "obs://b/k"), 1, 1, True)
        for number in range(20)
    )
    cut = tuple(ended(rank, 0)._replace(log_lost=5) for rank in range(9))
    job = cast(Any, SimpleNamespace(log_dir="/log", host="h"))
    lines = report_lines(Ending.of(job, [], None, RunResult(cut), None, form), phases, page="/page")
    assert len(lines) == 15
    assert lines[8] == "45 bytes are missing in the log files of 9 processes"
    assert lines[9:12] == [
        *(f"output x{number}: 1 file, 1 B in /dir, for obs://b/k" for number in range(2)),
        "and 18 more inputs and outputs",
    ]
