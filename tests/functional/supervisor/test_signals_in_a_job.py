"""Signals to `ma_boot` while it runs a job, blocked by its parent or not."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.functional.node import RANK, Node, pids


def options(node: Node) -> list[str]:
    """Returns the options for an output that every rank writes."""
    return node.mapping({}, {"out": "obs://bucket/out/"})


def words(node: Node) -> list[str]:
    """Returns the command of a rank that writes its output and then prints that it is ready."""
    return [RANK, "write:out/RANK:x", f"ready:{node.root}/pid"]


@pytest.mark.parametrize("signum", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_request_for_stacks_does_not_end_the_job(node: Node, signum: int) -> None:
    running = node.start(*options(node), *words(node), "await:go")
    pids(node.root, "pid.*", 2)
    running.signal(signum)
    (node.home / "go").write_text("")
    ended = running.end()
    assert ended.code == 0, ended.output
    assert (node.obs / "bucket" / "out" / "0").exists()


@pytest.mark.parametrize("signum", [signal.SIGALRM, signal.SIGXCPU, signal.SIGIO, signal.SIGRTMIN + 3])
def test_any_other_signal_stops_the_job_and_outputs_are_uploaded(node: Node, signum: int) -> None:
    running = node.start(*options(node), *words(node), "sleep")
    pids(node.root, "pid.*", 2)
    running.signal(signum)
    running.signal(signum)
    ended = running.end()
    assert ended.code == 128 + signum, ended.output
    assert (node.obs / "bucket" / "out" / "1").exists()


def test_sigterm_blocked_by_the_parent_is_received_and_not_blocked_in_ranks(node: Node) -> None:
    blocked = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {15, 2, 10})"
    program = f"{blocked}; os.execv(sys.argv[1], sys.argv[1:])"
    running = node.start_by([sys.executable, "-c", program], *options(node), *words(node), "sleep")
    for pid in pids(node.root, "pid.*", 2):
        status = Path(f"/proc/{pid}/status").read_text()
        assert "SigBlk:\t0000000000000000\n" in status
    running.signal(signal.SIGTERM)
    ended = running.end()
    assert ended.code == 143, ended.output
    assert (node.obs / "bucket" / "out" / "1").exists()
