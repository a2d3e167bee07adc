"""End of a node as an exit status, as a report, and as a file for programs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, strategies as st

from ma_boot.desk.rehearsal.summary import job_exit_code
from ma_boot.errors import BootError, CommandNotFound, InputMissing, OutputLost, RankTableTimeout
from ma_boot.platform.modelarts.job import Channel, ChannelContent
from ma_boot.report.cause import Cause, causes_of
from ma_boot.report.exit_report import (
    Ending,
    end_event,
    exit_status,
    failure_document,
    report_lines,
    write_failure,
)
from ma_boot.report.result import (
    CAUSE,
    FOLLOWED,
    STOPPED as STOPPED_BY_US,
    WELL as WELL_ENDED,
    ExitStatus,
    HangSuspect,
    RunResult,
    WorkerExit,
)


def ended(rank: int, code: int, stopped: bool = False, signum: int | None = None) -> WorkerExit:
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


@pytest.mark.invariant(
    "The exit code is that of a stop, else of the first failing process, else of the uploads; never 0 after a stop"
)
@pytest.mark.parametrize("lost", [None, LOST])
@pytest.mark.parametrize("stopped_by", [None, 15, 2])
@pytest.mark.parametrize(
    ("run", "alone"), [(WELL, 0), (FAILED, 3), (KILLED, 137), (UNSTARTED, 127)], ids=["well", "3", "9", "127"]
)
def test_signal_before_process_before_upload(
    run: RunResult, alone: int, stopped_by: int | None, lost: OutputLost | None
) -> None:
    ending = Ending.of(None, [stopped_by] if stopped_by else [], None, run, lost)
    code = 128 + stopped_by if stopped_by else alone or (74 if lost else 0)
    assert exit_status(ending).code == code


@pytest.mark.invariant("A doubt about a success is reported, and changes no exit code")
@pytest.mark.parametrize("lost", [None, LOST])
@pytest.mark.parametrize("stopped_by", [None, 15])
def test_doubt_changes_no_exit_code(stopped_by: int | None, lost: OutputLost | None) -> None:
    hidden = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: x\n'
    run = RunResult((ended(0, 0), ended(1, 0)._replace(output=hidden)))
    ending = Ending.of(None, [stopped_by] if stopped_by else [], None, run, lost)
    assert exit_status(ending).code == exit_status(ending._replace(run=WELL)).code
    assert any("but a process of the training failed" in f"but {line}" for line in report_lines(ending))
    assert end_event(ending)["doubt"]["label"] == "rank 1"
    assert end_event(ending._replace(run=WELL))["doubt"] is None
    failed = ending._replace(run=run._replace(exits=(*run.exits, ended(2, 3))))
    assert end_event(failed)["doubt"] is None


def test_doubt_has_a_failure_file(tmp_path: Path) -> None:
    hidden = "Segmentation fault\n"
    job = cast(Any, SimpleNamespace(host="h", node_rank=0, failure_file=str(tmp_path / "failure.json")))
    run = RunResult((ended(0, 0)._replace(output=hidden),))
    write_failure(Ending.of(job, [], None, WELL, None))
    assert not (tmp_path / "failure.json").exists()
    write_failure(Ending.of(job, [], None, run, None))
    assert '"words": "Segmentation fault"' in (tmp_path / "failure.json").read_text()


@pytest.mark.parametrize(("error", "code"), [(RankTableTimeout("x"), 75), (InputMissing("x"), 66)])
def test_the_error_that_ended_the_boot_decides_the_exit_code(error: BootError, code: int) -> None:
    assert exit_status(Ending.of(None, [], error, None, LOST)).code == code


@pytest.mark.parametrize(
    ("code", "stopped", "role"),
    [(0, False, WELL_ENDED), (0, True, WELL_ENDED), (1, True, FOLLOWED), (1, False, FOLLOWED), (139, True, FOLLOWED),
     (143, False, FOLLOWED), *((code, True, STOPPED_BY_US) for code in (143, 137, 241, 247))],
)  # fmt: skip
def test_roles_after_a_failure(code: int, stopped: bool, role: str) -> None:
    run = RunResult((ended(1, 3), ended(2, code, stopped)))
    assert [run.role(process) for process in run.exits] == [CAUSE, role]


def test_process_that_is_no_rank_is_not_the_cause_of_a_hang_without_suspect() -> None:
    """MindSpore's scheduler is stopped with the ranks; a single launcher is all that can be shown."""
    scheduler = ended(0, 143, stopped=True, signum=15)._replace(label="scheduler", rank=None)
    shown = []
    for exits in ((scheduler, ended(0, 143, stopped=True, signum=15)), (scheduler,)):
        ending = Ending.of(None, [], None, RunResult(exits, hung="the job"), None)
        lines = report_lines(ending._replace(cause=Cause(0, None, 124, "the job hung", 5.0)))
        shown.append([line.startswith("the cause: ") for line in lines])
    assert [any(lines) for lines in shown] == [False, True]


@pytest.mark.parametrize("suspect", [HangSuspect(0, 0, "is in a lock"), None])
def test_stacks_of_a_hang_tell_more_than_old_lines_of_the_log(suspect: HangSuspect | None) -> None:
    """MindSpore's workers warn of their first attempts to connect, also in jobs that go on."""
    hung = ended(0, 143, stopped=True, signum=15)
    hung = hung._replace(output="[WARNING] Failed to connect to the meta server node url: 10.0.0.1:8118\n")
    run = RunResult((hung,), hung="node 0, rank 0", suspect=suspect)
    lines = report_lines(
        Ending.of(None, [], None, run, None)._replace(cause=Cause(0, 0, 124, "it hung", 5.0))
    )
    assert any("Failed to connect" in line for line in lines)
    assert any(line.startswith("hint: ") for line in lines) is (suspect is None)


def test_the_answer_to_a_stop_of_the_whole_job_is_no_failure() -> None:
    answer = ended(0, 1, stopped=True)
    assert RunResult((answer,)).role(answer) == STOPPED_BY_US


RAISED = 'Traceback (most recent call last):\n  File "x"\n{}\n'


def with_outputs(run: RunResult, *outputs: str) -> RunResult:
    return run._replace(exits=tuple(e._replace(output=text) for e, text in zip(run.exits, outputs)))


@pytest.mark.parametrize(
    ("code", "output", "last"),
    [
        (1, RAISED.format("ValueError: no layer"), "(exit code of the training process): ValueError: no layer"),
        (2, "python: can't open file 'x.py': [Errno 2] No such file or directory\n\n", "training process): python: can't open file 'x.py': [Errno 2] No such file or directory"),
        (127, "run.sh: line 1: trian: command not found\n", "or one that it runs, does not exist: run.sh: line 1: trian: command not found"),
        (1, '  File "x.py", line 1\n    x y\nSyntaxError: invalid syntax\n', "SyntaxError: invalid syntax"),
        (3, "step 1, error 0.25\nbye\n", "(exit code of the training process)"),
        (137, "[ERROR] a retry\n", "the kernel counted no OOM kill"),
    ],
)  # fmt: skip
def test_the_last_line_has_what_the_process_said_of_its_end(code: int, output: str, last: str) -> None:
    ending = Ending.of(None, [], None, with_outputs(RunResult((ended(0, code),)), output), None)
    assert report_lines(ending)[-1].endswith(last)
    words = end_event(ending)["words"]
    assert last.endswith(words)
    assert bool(words) is (code not in (3, 137))


def outputs(count: int) -> tuple[ChannelContent, ...]:
    channels = (Channel(f"x{number}", "outputs", "/dir", "obs://b/k") for number in range(count))
    return tuple(ChannelContent(channel, 1, 1, True) for channel in channels)


@pytest.mark.parametrize(("count", "last"), [(14, "output x13"), (15, "and 2 more inputs and outputs")])
def test_a_list_that_just_fits_is_shown_completely(count: int, last: str) -> None:
    form = outputs(count)
    lines = report_lines(Ending.of(None, [], None, None, None, form))
    assert len(lines) == 15
    assert lines[-2].startswith(last)


def test_the_jobs_cause_takes_a_line_of_the_fifteen() -> None:
    cause = Cause(3, 27, 1, "ValueError: x", 5.0, place="train.py:7")
    ending = Ending.of(None, [15], None, None, None, outputs(20))._replace(cause=cause, agreed=True)
    lines = report_lines(ending)
    assert len(lines) == 15
    assert lines[-1] == "the job's cause: node 3, rank 27: ValueError: x, at train.py:7"


def test_the_summary_has_at_most_fifteen_lines() -> None:
    form = outputs(20)
    cut = tuple(ended(rank, 0)._replace(log_lost=5) for rank in range(9))
    job = cast(Any, SimpleNamespace(log_dir="/log", host="h"))
    lines = report_lines(Ending.of(job, [], None, RunResult(cut), None, form), page="/page")
    assert len(lines) == 15
    assert lines[0] == "45 bytes are missing in the log files of 9 processes"
    assert lines[1:12] == [
        *(f"output x{number}: 1 file, 1 B in /dir, for obs://b/k" for number in range(10)),
        "and 10 more inputs and outputs",
    ]


@pytest.mark.parametrize(
    ("run", "succeeded", "outcome", "summary"),
    [
        (RunResult((ended(0, 0), ended(1, 0))), True, "done", "2 processes ended with 0"),
        (RunResult((ended(0, 0), ended(1, 1))), False, "failed", "rank 1 ended with exit code 1"),
        (
            RunResult((ended(0, 143, True), ended(1, 0))),
            False,
            "stopped",
            "1 process ended with 0, 1 stopped",
        ),
        (RunResult((), CommandNotFound("x")), False, "failed", "0 processes ended with 0"),
        (
            RunResult((ended(0, 143, True),), hung="rank 0"),
            False,
            "failed",
            "0 processes ended with 0, 1 stopped",
        ),
        (RunResult((ended(0, 0),), left=("rank 1",)), False, "stopped", "1 process ended with 0"),
    ],
    ids=["well", "failed", "stopped", "not started", "hung", "left"],
)
def test_outcomes(run: RunResult, succeeded: bool, outcome: str, summary: str) -> None:
    assert (run.succeeded, run.outcome, run.summary()) == (succeeded, outcome, summary)


def test_an_error_that_no_check_has_foreseen_is_ours() -> None:
    ending = Ending.of(None, [], ZeroDivisionError("x"), None, None)
    assert exit_status(ending).code == 70
    assert "ZeroDivisionError: x" in exit_status(ending).cause


def test_the_first_of_several_stops_counts() -> None:
    failed = RunResult((ended(1, 3), ended(0, 143, True)))
    ending = Ending.of(None, [15, 2], None, failed, None)
    assert exit_status(ending) == (
        143,
        "signal",
        "stopped by SIGTERM; before that, rank 1 ended with exit code 3",
    )
    assert end_event(ending)["label"] == "rank 1"


class TestReport:
    """The last screen."""

    def test_eight_others_are_named_and_the_rest_is_counted(self) -> None:
        exits = [ended(0, 3), *(ended(rank, 143, True) for rank in range(1, 11))]
        lines = report_lines(Ending.of(None, [], None, RunResult(tuple(exits)), None))
        others = [line for line in lines if line.endswith("stopped by ma_boot")]
        assert [line.partition(" ended")[0] for line in others] == [f"rank {rank}" for rank in range(1, 9)]
        assert "and 2 others, all of them in the failure file" in lines
        nine = report_lines(Ending.of(None, [], None, RunResult(tuple(exits[:9])), None))
        assert not any("others" in line for line in nine)

    def test_a_process_that_ended_before_the_cause_is_named_as_the_first(self) -> None:
        ending = Ending.of(None, [], None, RunResult((ended(1, 1), ended(0, 3))), None)
        lines = report_lines(ending._replace(cause=Cause(0, 0, 3, "ValueError", 5.0)))
        assert "rank 1 ended with exit code 1 after 1.5 s: ended first" in lines


class TestFailureFile:
    """`<job>-node-<i>-failure.json`."""

    def ending(self, path: Path, code: int = 3) -> Ending:
        job = SimpleNamespace(host="worker-0", failure_file=str(path), log_dir=str(path.parent))
        run = RunResult((ended(0, code), ended(1, 143 if code else 0, bool(code))))
        return Ending.of(cast(Any, job), [], None, run, None)

    def test_it_is_for_people_too(self, tmp_path: Path) -> None:
        ending = self.ending(tmp_path / "deep" / "er" / "a-failure.json")
        write_failure(ending._replace(error=RankTableTimeout("图")))
        assert '\n  "summary": "图"' in (tmp_path / "deep" / "er" / "a-failure.json").read_text()

    def test_there_is_none_after_success(self, tmp_path: Path) -> None:
        write_failure(self.ending(tmp_path / "a-failure.json", code=0))
        assert list(tmp_path.iterdir()) == []

    def test_a_place_that_cannot_be_written_changes_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        write_failure(self.ending(tmp_path / "file" / "a-failure.json"))

    def test_the_summary_has_at_most_1024_characters(self) -> None:
        for count, expected in ((1024, 1024), (1025, 1024), (10, 10)):
            document = failure_document(Ending.of(None, [], RankTableTimeout("x" * count), None, None))
            assert len(document["summary"]) == expected
        assert (document["first_failure"], document["processes"], document["host"]) == (None, [], None)


@pytest.mark.invariant(
    "The exit code is that of a stop, else of the first failing process, else of the uploads; never 0 after a stop"
)
def test_a_stop_is_never_success() -> None:
    assert exit_status(Ending.of(None, [15], None, STOPPED, None)).code == 143


def test_ranks_that_were_stopped_for_another_nodes_failure_end_with_its_code() -> None:
    run = STOPPED._replace(stopped_for=ExitStatus(3, "training", "node 1, rank 3: ValueError: x"))
    event = end_event(Ending.of(None, [], None, run, None))
    assert (event["exit_code"], event["cause"]) == (3, "stopped because node 1, rank 3: ValueError: x")


LOST_A_PEER = "Traceback (most recent call last):\n  x\nConnectionResetError: Connection reset by peer\n"
HOW_ENDED = st.builds(
    ended,
    st.integers(0, 7),
    st.sampled_from([0, 0, 0, 1, 3, 137, 143]),
    st.booleans(),
)
RUNS = st.none() | st.builds(
    RunResult,
    st.lists(HOW_ENDED, max_size=3).map(tuple),
    st.none() | st.just(CommandNotFound("x")),
    st.sampled_from([(), ("rank 0",)]),
    st.sampled_from([(), ("rank 1",)]),
    suspect=st.none() | st.just(HangSuspect(1, 3, "waits")),
    stopped_for=st.none()
    | st.builds(ExitStatus, st.integers(0, 255), st.just("training"), st.just("node 1: x")),
)
JOB = cast(Any, SimpleNamespace(node_rank=0, host="h", log_dir="/log"))
ENDINGS = st.builds(
    Ending,
    st.sampled_from([None, JOB]),
    st.sampled_from([None, 2, 15]),
    st.sampled_from([None, RankTableTimeout("x")]),
    RUNS,
    st.sampled_from([None, LOST]),
    cause=st.none()
    | st.builds(
        Cause,
        st.integers(0, 1),
        st.none() | st.integers(0, 7),
        st.integers(0, 255),
        st.just("x"),
        st.just(1.0),
    ),
    agreed=st.booleans(),
)


@pytest.mark.invariant(
    "An unknown end is a failure; 0 only if all processes ended with 0 by themselves and the job was not given up"
)
@given(ENDINGS)
def test_only_processes_that_all_ended_well_by_themselves_give_0(ending: Ending) -> None:
    code, by, cause = exit_status(ending)
    run = ending.run
    all_well = (
        run is not None
        and bool(run.exits)
        and all(
            (process.code == 0 and not process.stopped)
            or (run.is_released and (process.stopped or not process.code))
            for process in run.exits
        )
        and not (run.not_started or run.hung or run.left or run.stopped_for)
    )
    nothing_else = ending.stopped_by is None and ending.error is None and ending.lost is None
    assert (code == 0) == (all_well and nothing_else)
    assert (by is None) == (code == 0) == (cause == "success")
    assert 0 <= code <= 255
    assert report_lines(ending)


@given(st.lists(HOW_ENDED, max_size=3), st.sampled_from([None, 15]))
def test_a_rehearsal_gives_0_only_for_nodes_that_all_ended_well(exits: Any, stop: int | None) -> None:
    for left in ((), ("node 1",)):
        run = RunResult(tuple(exits), left=left)
        code = job_exit_code(run, [stop] if stop else [])
        assert (code == 0) == (run.succeeded and not stop)


def test_a_node_that_only_lost_a_peer_ends_with_the_code_of_the_cause() -> None:
    lost = RunResult((ended(0, 1)._replace(output=LOST_A_PEER),))
    ending = Ending.of(JOB, [], None, lost, None)
    assert exit_status(ending).code == 1
    agreed = ending._replace(cause=Cause(1, 3, 7, "ValueError: x", 5.0), agreed=True)
    assert exit_status(agreed)[:2] == (7, "training")
    assert report_lines(agreed)[-2:] == [
        "exit code 7: rank 0 ended with exit code 1 after 1.5 s, as it had lost another rank (exit code of the cause)",
        "the job's cause: node 1, rank 3: ValueError: x",
    ]
    own = agreed._replace(run=RunResult((ended(0, 3),)))
    assert exit_status(own).code == 3, "it failed by itself, too"


def test_a_rank_that_raised_while_it_was_stopped_ends_with_its_own_code() -> None:
    """Its end came by our SIGTERM; without it it would have ended with 1."""
    raised = ended(0, 143, True, 15)._replace(output=RAISED.format("ValueError: bad batch"))
    (cause,) = causes_of([raised], 0, 0.0)
    assert cause.code == 1
    ending = Ending.of(JOB, [], None, RunResult((raised,)), None)._replace(cause=cause, agreed=True)
    assert exit_status(ending) == (1, "training", "stopped because node 0, rank 0: ValueError: bad batch")


def test_a_handler_that_ends_a_stopped_rank_with_0_is_no_success() -> None:
    run = RunResult((ended(0, 0), ended(1, 0, stopped=True)))
    assert (run.succeeded, run.outcome) == (False, "stopped")
    assert exit_status(Ending.of(None, [], None, run, LOST)).code == 1


def test_the_words_of_a_coloured_exception_have_no_escape_sequences() -> None:
    output = RAISED.format("\x1b[36mRuntimeError\x1b[39m: \x1b]0;title\x07 failed\x08")
    ending = Ending.of(None, [], None, with_outputs(RunResult((ended(0, 1),)), output), None)
    assert end_event(ending)["words"] == "RuntimeError:  failed\\x08"
    assert report_lines(ending)[-1].endswith("RuntimeError:  failed\\x08")
    assert not any("\x1b" in line for line in report_lines(ending))


def test_ranks_with_the_exception_of_the_cause_share_a_line() -> None:
    output = RAISED.format("ValueError: no layer")
    exits = tuple(ended(rank, 1)._replace(output=output) for rank in range(4))
    other = ended(4, 1)._replace(output=RAISED.format("KeyError: 'x'"))
    lines = report_lines(Ending.of(None, [], None, RunResult((*exits, other)), None))
    assert lines.count("  | ValueError: no layer") == 1
    assert "3 more ranks: the same: rank 1, rank 2, rank 3" in lines
    assert any(line.startswith("rank 4 ended") and line.endswith("KeyError: 'x'") for line in lines)
