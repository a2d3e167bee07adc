"""Errors of CANN's logs beside the failure of a process."""

from __future__ import annotations

import pytest

from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy, decide
from ma_boot.report.cause import LOST_PEER, OWN, Cause, causes_of
from ma_boot.report.hints import hints_for
from ma_boot.report.plog import MOST_LINES, coded_lines, error_lines
from ma_boot.report.result import WorkerExit

AT = "HCCL(7,python):2026-01-02-03:04:05.678.901 "


def error(message: str) -> str:
    return f"[ERROR] {AT}[hccl_socket.cc:110] [7][InitGroupStage]{message}"


def ended(
    exception: str, *lines: str, code: int = 1, stopped: bool = False, oom: str | None = None
) -> WorkerExit:
    """Returns the end of a rank that raised the exception, with these errors in its plog."""
    output = f'Traceback (most recent call last):\n  File "/job/train.py", line 7, in <module>\n{exception}\n'
    return WorkerExit(
        label="rank 0", rank=0, device=0, pid=7, code=code, signal=None, ended_ns=int(60e9), seconds=60.0,
        stopped=stopped, log_file="", output=output if exception else "", oom=oom, plog=error_lines("\n".join(lines)),
    )  # fmt: skip


def cause(end: WorkerExit) -> Cause:
    return causes_of([end], 0, 0.0)[0]


def rule(end: WorkerExit) -> str:
    ends = {0: AttemptEnd(1, final="", seconds=60.0, stepped=True)}
    return decide(1, ends, RestartPolicy(2, 10.0), cause(end), []).rule


NO_REASON = "RuntimeError: Initialize:torch_npu/csrc/core/npu/sys_ctrl/npu_sys_ctrl.cpp:120 NPU error"


def test_code_of_the_plog_follows_the_exception_and_its_hint_is_given() -> None:
    end = ended(NO_REASON, error("call trace: hcclRet -> 7"), error("port 16666 is in use (EJ0003)"))
    assert cause(end).words == f"{NO_REASON}; in CANN's log: port 16666 is in use (EJ0003)"
    assert cause(end).place == "job/train.py:7"
    assert "port" in cause(end).hint
    assert hints_for(end.output) == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("rank table invalid (EI0014)", "configuration"),
        ("HCCP is not initialized (EJ0001)", "transient"),
        ("rtStreamSynchronize failed, runtime result = 507054", "hardware"),
    ],
)
def test_code_of_the_plog_decides_on_a_restart(message: str, expected: str) -> None:
    assert rule(ended(NO_REASON)) == "unknown"
    assert rule(ended(NO_REASON, error(message))) == expected


def test_rank_whose_plog_waits_for_a_peer_has_lost_it() -> None:
    assert cause(ended(NO_REASON)).evidence == OWN
    assert cause(ended(NO_REASON, error("wait timeout (EI0006)"))).evidence == LOST_PEER


@pytest.mark.parametrize("exception", ["ValueError: no layer 17", "KeyError: 'head'", "KeyboardInterrupt"])
def test_pythons_own_exception_is_not_explained_by_a_plog(exception: str) -> None:
    end = ended(exception, error("wait timeout (EI0006)"))
    assert cause(end) == cause(ended(exception))


def test_exception_with_a_code_keeps_it() -> None:
    words = "RuntimeError: HCCL error (EI0019): no port"
    assert cause(ended(words, error("(EJ0001) not initialized"))).words == words


def test_plog_explains_neither_sigkill_nor_a_stop() -> None:
    line = error("wait timeout (EI0006)")
    assert "EI0006" not in str(cause(ended("", line, code=137)))
    assert "EI0006" not in str(cause(ended("", line, code=137, oom="cgroup oom_kill +1")))
    assert causes_of([ended("", line, code=143, stopped=True)], 0, 0.0) == []


def test_process_without_an_exception_is_explained_by_its_plog() -> None:
    found = cause(ended("", error("errNo, ret[507018] aicpu exception"), code=134))
    assert found.words == "in CANN's log: errNo, ret[507018] aicpu exception"
    assert found.hint


def test_only_errors_are_kept_with_the_lines_that_continue_them() -> None:
    text = f"[INFO] {AT}EI0001 off\n[ERROR] {AT}failed\n  (EI0004) reason\n[WARNING] {AT}EI0002\nmore\nstart"
    assert error_lines(text) == f"[ERROR] {AT}failed\n  (EI0004) reason"
    assert error_lines("torn\x00\xff line\n") == ""
    assert len(error_lines("[ERROR] x\n" * 9999).splitlines()) == MOST_LINES


def test_lines_with_the_same_code_are_shown_once_without_secrets() -> None:
    lines = "\n".join(
        [error("(EI0001) password=hunter2hunter"), error("(EI0001) again"), error("(EI0003) x" * 90)]
    )
    assert coded_lines(lines)[0] == "(EI0001) password=******"
    assert [len(line) <= 200 for line in coded_lines(lines)] == [True, True]
