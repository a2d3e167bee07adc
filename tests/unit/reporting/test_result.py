"""How all processes of a node ended, as words and as a file for programs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional, cast

import pytest

from ma_boot.errors import CommandNotFound, OutputLost, RankTableTimeout
from ma_boot.modelarts import ChannelContent
from ma_boot.modelarts.channels import Channel
from ma_boot.reporting import Ending, RunResult, WorkerExit, below, end_event, report_lines, write_failure
from ma_boot.reporting.exit_report import exit_status, failure_document
from ma_boot.reporting.result import HangSuspect

RAISED = "Traceback (most recent call last):\n  File 'x'\nValueError: {}\n"


def ended(rank: int, code: int = 0, stopped: bool = False, **more: Any) -> WorkerExit:
    values: Any = {"signal": None, "log_file": f"/log/{rank}", "device": rank, **more}
    return WorkerExit(
        label=f"rank {rank}",
        rank=rank,
        pid=100 + rank,
        code=code,
        ended_ns=1,
        seconds=1.26,
        stopped=stopped,
        **values,
    )


@pytest.mark.parametrize(
    ("run", "succeeded", "outcome", "summary"),
    [
        (RunResult((ended(0), ended(1))), True, "done", "2 processes ended with 0"),
        (RunResult((ended(0), ended(1, 1))), False, "failed", "rank 1 ended with exit code 1"),
        (RunResult((ended(0, 143, True), ended(1))), False, "stopped", "1 process ended with 0, 1 stopped"),
        (RunResult((), CommandNotFound("x")), False, "failed", "0 processes ended with 0"),
        (
            RunResult((ended(0, 143, True),), hung=("rank 0",)),
            False,
            "failed",
            "0 processes ended with 0, 1 stopped",
        ),
        (RunResult((ended(0),), left=("rank 1",)), False, "stopped", "1 process ended with 0"),
    ],
    ids=["well", "failed", "stopped", "not started", "hung", "left"],
)
def test_outcomes(run: RunResult, succeeded: bool, outcome: str, summary: str) -> None:
    assert (run.succeeded, run.outcome, run.summary()) == (succeeded, outcome, summary)


@pytest.mark.parametrize(
    ("run", "lost", "code", "by"),
    [
        (RunResult((ended(0, 143, True),), hung=("rank 0", "rank 1")), None, 124, "ma_boot"),
        (RunResult((ended(0),), left=("rank 1",)), None, 124, "ma_boot"),
        (RunResult((ended(0),)), OutputLost("x"), 74, "output"),
        (RunResult((ended(0),)), None, 0, None),
    ],
)
def test_whose_code_it_is(run: RunResult, lost: Optional[OutputLost], code: int, by: Optional[str]) -> None:
    ending = Ending.of(None, [], None, run, lost)
    assert exit_status(ending)[:2] == (code, by)
    event = end_event(ending)
    assert (event["exit_code"], event["by"], event["label"], event["signal"]) == (code, by, None, None)


@pytest.mark.parametrize(
    ("one", "role"),
    [(ended(1), "ended with 0"), (ended(1, 0, True), "ended with 0"), (ended(1, 1, True), "failed after it"),
     (ended(1, 1), "failed after it"), (ended(1, 143, True), "stopped by ma_boot"), (ended(1, 143), "failed after it")],
)  # fmt: skip
def test_roles_after_a_failure(one: WorkerExit, role: str) -> None:
    run = RunResult((ended(0, 3), one))
    assert (run.role(run.exits[0]), run.role(one)) == ("the cause", role)


@pytest.mark.parametrize(
    ("kind", "files", "complete", "text"),
    [
        ("inputs", 2, True, "input data: 2 files, 1.5 kB in /dir, from obs://b/k"),
        ("outputs", 0, True, "output data: no files in /dir, for obs://b/k"),
        ("outputs", 2, False, "output data: more than 2 files, 1.5 kB in /dir, for obs://b/k"),
    ],
)
def test_what_the_job_forms_channels_hold(kind: str, files: int, complete: bool, text: str) -> None:
    content = ChannelContent(Channel("data", kind, "/dir", "obs://b/k"), files, 1500, complete)
    assert text in report_lines(Ending.of(None, [], None, None, None, (content,)), [])


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


def test_what_to_do_about_a_failure_is_said_before_the_last_line() -> None:
    run = RunResult((ended(0, 3),), advice=("ask for more memory", "or less"))
    lines = report_lines(Ending.of(None, [], None, run, None), [])
    assert lines[-3:] == [
        "  - ask for more memory",
        "  - or less",
        "exit code 3: rank 0 ended with exit code 3 after 1.3 s (the training's own code)",
    ]


@pytest.mark.parametrize(("rank", "who"), [(27, "node 3, rank 27"), (0, "node 3, rank 0"), (None, "node 3")])
def test_who_is_suspected_of_a_hang(rank: Optional[int], who: str) -> None:
    suspect = HangSuspect(3, rank, "is in x")
    run = RunResult((), hung=("rank 0",), suspect=suspect)
    assert exit_status(Ending.of(None, [], None, run, None)).cause.endswith(f"\nsuspected: {who}: it is in x")


class TestReport:
    """The last screen."""

    def test_of_a_stop_only_those_with_an_exception_are_named(self) -> None:
        exits = (ended(0, 143, True), ended(1, 143, True, output=RAISED.format("x")), ended(2, 0, True))
        lines = report_lines(Ending.of(None, [15], None, RunResult(exits), None), [])
        assert [line for line in lines if line.startswith("rank")] == [
            "rank 1 ended with exit code 143 after 1.3 s: stopped by ma_boot; its last exception: ValueError: x"
        ]

    def test_eight_others_are_named_and_the_rest_is_counted(self) -> None:
        exits = [ended(0, 3), *(ended(rank, 143, True) for rank in range(1, 11))]
        lines = report_lines(Ending.of(None, [], None, RunResult(tuple(exits)), None), [])
        others = [line for line in lines if line.endswith("stopped by ma_boot")]
        assert [line.partition(" ended")[0] for line in others] == [f"rank {rank}" for rank in range(1, 9)]
        assert "and 2 others, all of them in the failure file" in lines
        nine = report_lines(Ending.of(None, [], None, RunResult(tuple(exits[:9])), None), [])
        assert not any("others" in line for line in nine)

    def test_those_with_an_exception_come_first_cut_at_300_characters(self) -> None:
        exits = (ended(0, 3), ended(1, 143, True), ended(2, 143, True, output=RAISED.format("x" * 400)))
        lines = report_lines(Ending.of(None, [], None, RunResult(exits), None), [])
        first = next(line for line in lines if "stopped by ma_boot" in line)
        assert first.startswith("rank 2 ended with exit code 143 after 1.3 s")
        assert first.endswith("its last exception: ValueError: " + "x" * (300 - len("ValueError: ")))

    def test_long_lines_of_the_cause_are_cut_and_hints_follow(self) -> None:
        run = RunResult((ended(0, 3, output="y" * 400 + "\nEI0017\n"),))
        lines = report_lines(Ending.of(None, [], None, run, None), [], page="/log/page.html")
        assert lines[0] == "the cause: rank 0, device 0, pid 100; its log: /log/0"
        assert lines[1] == "  | " + "y" * 300
        assert any(line.startswith("hint: ") and "rank-table validate" in line for line in lines)
        assert "page: /log/page.html" in lines

    def test_what_a_log_file_did_not_take_is_said(self) -> None:
        run = RunResult((ended(0, log_lost=7), ended(1)))
        lines = report_lines(Ending.of(None, [], None, run, None), [])
        assert [line for line in lines if "missing" in line] == ["rank 0: 7 bytes are missing in /log/0"]

    def test_a_process_without_a_device_has_none(self) -> None:
        run = RunResult((ended(0, 3, device=None),))
        assert report_lines(Ending.of(None, [], None, run, None), [])[0].startswith(
            "the cause: rank 0, pid 100"
        )

    def test_a_row_does_not_repeat_the_last_line(self) -> None:
        assert below("x", "the x of it") == ""
        assert below("y", "the x of it") == "y"
        assert below("", "x") == ""


class TestFailureFile:
    """`<job>-node-<i>-failure.json`."""

    def ending(self, path: Path, code: int = 3) -> Ending:
        job = SimpleNamespace(host="worker-0", failure_file=str(path), log_dir=str(path.parent))
        run = RunResult(
            (ended(0, code, output=RAISED.format("no data")), ended(1, 143 if code else 0, bool(code)))
        )
        return Ending.of(cast(Any, job), [], None, run, None)

    def test_it_has_the_cause_and_every_process(self, tmp_path: Path) -> None:
        write_failure(self.ending(tmp_path / "a-failure.json"))
        document = json.loads((tmp_path / "a-failure.json").read_text())
        assert (document["exit_code"], document["host"], document["output_lost"]) == (3, "worker-0", None)
        assert document["first_failure"]["exception"] == "ValueError: no data"
        assert document["last_words"][-1] == "ValueError: no data"
        assert [(one["label"], one["part"]) for one in document["processes"]] == [
            ("rank 0", "the cause"),
            ("rank 1", "stopped by ma_boot"),
        ]
        assert "output" not in document["first_failure"]

    def test_it_is_for_people_too(self, tmp_path: Path) -> None:
        ending = self.ending(tmp_path / "deep" / "er" / "a-failure.json")
        write_failure(ending._replace(error=RankTableTimeout("图")))
        assert '\n  "summary": "图"' in (tmp_path / "deep" / "er" / "a-failure.json").read_text()

    def test_there_is_none_after_success(self, tmp_path: Path) -> None:
        write_failure(self.ending(tmp_path / "a-failure.json", code=0))
        assert list(tmp_path.iterdir()) == []

    def test_one_of_the_training_is_kept(self, tmp_path: Path) -> None:
        (tmp_path / "a-failure.json").write_text("theirs")
        write_failure(self.ending(tmp_path / "a-failure.json"))
        assert (tmp_path / "a-failure.json").read_text() == "theirs"
        assert json.loads((tmp_path / "a-failure-ma_boot.json").read_text())["exit_code"] == 3

    def test_a_place_that_cannot_be_written_changes_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        write_failure(self.ending(tmp_path / "file" / "a-failure.json"))

    def test_the_summary_has_at_most_1024_characters(self) -> None:
        for count, expected in ((1024, 1024), (1025, 1024), (10, 10)):
            document = failure_document(Ending.of(None, [], RankTableTimeout("x" * count), None, None))
            assert len(document["summary"]) == expected
        assert (document["first_failure"], document["processes"], document["host"]) == (None, [], None)
