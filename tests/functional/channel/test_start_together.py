"""Ranks of all nodes start together, as soon as the last node is ready: real nodes of unlike speed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ma_boot.node.peers import start_barrier
from ma_boot.node.peers.job_peers import JobPeers
from ma_boot.platform.modelarts.job import read_job
from ma_boot.platform.modelarts.network import free_port
from ma_boot.processes.signals import SignalInbox
from tests.functional.channel.job_by_hand import JobByHand
from tests.functional.channel.nodes import TOKEN
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import EventLog

WORKS = ["print('step: 1', flush=True)"]
# Stands in for inputs that take long, up to the end that the test chooses.
WAITS = "until [ -e go ]; do sleep 0.02; done\n"
TORCH = ("--rendezvous", "torch", "train.py")


class UnlikeNodes(JobByHand):
    """A job of which node 1 is slow, until `release`."""

    def __init__(self, root: Path, nodes: int = 2, slow: int = 1, after: str = "", **variables: str) -> None:
        super().__init__(root, nodes, WORKS, **variables)
        self.slow = slow
        (self.nodes[slow].home / "ma-pre-start.sh").write_text(WAITS + after)

    def begin(self, *arguments: str) -> None:
        """Starts all nodes; returns when the others wait for the slow one."""
        self.running = [node.start(*arguments) for node in self.nodes]
        for node in self.others(self.slow):
            eventually(partial(self.phases, node, "phase-start"), f"node {node} waits")

    def phases(self, node: int, kind: str) -> list[dict[str, Any]]:
        """The events of the wait of a node."""
        return [event for event in self.events(node, kind) if event["phase"] == "peers"]

    def release(self) -> None:
        """Lets the slow node go on."""
        (self.nodes[self.slow].home / "go").write_text("")

    def has_started(self, node: int) -> bool:
        """Returns whether a rank of the node was started."""
        return bool(self.events(node, "start"))


@pytest.fixture(params=[0, 1, 2])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UnlikeNodes]:
    with closing(UnlikeNodes(tmp_path, 3, request.param)) as job:
        yield job


@pytest.mark.invariant(
    "Ranks that meet at an address start once all nodes are ready, and on none if one has failed"
)
def test_ranks_start_together_once_the_slowest_node_is_ready(job: UnlikeNodes) -> None:
    job.begin(*TORCH)
    named = f"waiting until node {0 if job.slow == 0 else job.slow} is ready"
    for node in job.others(job.slow):
        job.running[node].until(named)
    assert not any(map(job.has_started, job.others()))
    job.release()
    ends = [running.end() for running in job.running]
    assert [ended.code for ended in ends] == [0, 0, 0], ends
    starts = [job.events(node, "start")[0]["monotonic_ns"] for node in job.others()]
    assert max(starts) - min(starts) < start_barrier.RELAY_SECONDS * 1e9 + 2e9


@pytest.mark.invariant(
    "Ranks that meet at an address start once all nodes are ready, and on none if one has failed"
)
def test_node_that_fails_before_its_ranks_start_ends_the_wait_of_all(tmp_path: Path) -> None:
    with closing(UnlikeNodes(tmp_path, 3, after="echo no space; exit 3\n")) as job:
        job.begin(*TORCH)
        job.release()
        failed = job.running[1].end()
        for node in job.others(1):
            ended = job.running[node].end()
            assert ended.code == failed.code != 0, ended.output
            assert "exit code" in ended.output.rstrip().splitlines()[-1]
            assert "node 1" in ended.output.rstrip().splitlines()[-1], ended.output
            assert not job.has_started(node)


def test_node_that_is_killed_before_its_ranks_start_ends_the_wait(tmp_path: Path) -> None:
    with closing(UnlikeNodes(tmp_path)) as job:
        job.begin(*TORCH)
        eventually(lambda: job._connections() == 1, "both nodes have met")
        at = job.kill(1)
        ended = job.ends(at, 0)[0]
        assert "node 1 does not answer any more" in ended.output, ended.output
        assert ended.code == 1
        assert not job.has_started(0)


def test_stop_signal_ends_the_wait(tmp_path: Path) -> None:
    with closing(UnlikeNodes(tmp_path)) as job:
        job.begin(*TORCH)
        job.running[0].process.send_signal(signal.SIGTERM)
        ended = job.running[0].end()
        assert ended.code == 128 + signal.SIGTERM, ended.output
        assert not job.has_started(0)


def test_without_a_token_no_node_waits(tmp_path: Path) -> None:
    with closing(UnlikeNodes(tmp_path, MABOOT_JOB_TOKEN="")) as job:
        job.running = [node.start(*TORCH) for node in job.nodes]
        assert job.running[0].end().code == 0
        assert not job.phases(0, "phase-start")


def test_ranks_that_do_not_meet_at_an_address_do_not_wait(tmp_path: Path) -> None:
    with closing(UnlikeNodes(tmp_path)) as job:
        job.running = [node.start("--rendezvous", "none", "train.py") for node in job.nodes]
        eventually(lambda: job.has_started(0), "the ranks of node 0 run, while node 1 is not ready")


def test_node_that_never_connects_is_waited_for_for_a_limited_time(
    tmp_path: Path, inbox: SignalInbox, journal: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_barrier, "CONNECT_SECONDS", 0.3)
    environ = {"MA_NUM_HOSTS": "3", "VC_TASK_INDEX": "0", "VC_WORKER_HOSTS": "127.80.0.1,127.80.0.2,127.80.0.3",
               "MA_VJ_NAME": "ma-job", "HOME": str(tmp_path)}  # fmt: skip
    with JobPeers(TOKEN, inbox, journal) as peers:
        peers.open(read_job(environ, "host"), free_port())
        assert peers.await_start() is None
    assert "warning: the ranks start, though nodes 1, 2 are not ready after" in journal.screen()
