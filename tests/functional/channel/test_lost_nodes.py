"""A node that dies, or that the platform stops, ends the job on all other nodes: real nodes, real signals."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.functional.channel.job_by_hand import JobByHand
from tests.functional.node import Ended, eventually

WORKS = ["print('step: 1', flush=True)", "time.sleep(600)"]
CHECKPOINTS = {"ckpt": {"obs": "obs://bucket/ckpt", "checkpoint": "iter_{step}/rank_{rank}.bin",
                        "restore": "latest", "interval": 1}}  # fmt: skip


def is_named(ended: Ended, node: int) -> None:
    """The end is a failure, whose last line names the lost node."""
    assert ended.code not in (0, 128 + signal.SIGTERM), ended.output
    last = ended.output.rstrip().splitlines()[-1]
    assert f"the job's cause: node {node}: the node does not answer any more" in last, ended.output


@pytest.mark.invariant("A node that dies or leaves ends the attempt on all nodes, and is never a success")
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_dead_node_ends_the_job_though_no_rank_waits_for_it(tmp_path: Path, lost: int) -> None:
    with closing(JobByHand(tmp_path, 3, WORKS)) as job:
        job.start()
        at = job.kill(lost)
        for ended in job.ends(at, *job.others(lost)).values():
            is_named(ended, lost)


@pytest.mark.invariant("A node that dies or leaves ends the attempt on all nodes, and is never a success")
def test_training_that_succeeds_just_after_a_node_died_has_failed(tmp_path: Path) -> None:
    train = [*WORKS[:1], "while not os.path.exists('go'): time.sleep(0.01)"]
    with closing(JobByHand(tmp_path, 2, train)) as job:
        job.start()
        at = job.kill(1)
        (job.nodes[0].home / "go").write_text("")
        is_named(job.ends(at, 0)[0], 1)


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_lost_node_ends_a_job_with_restarts_with_and_without_checkpoints(
    tmp_path: Path, checkpoints: bool
) -> None:
    with closing(JobByHand(tmp_path, 2, WORKS)) as job:
        job.start("--max-restarts", "3", *with_checkpoints(job, checkpoints))
        at = job.kill(1)
        ended = job.ends(at, 0)[0]
        is_named(ended, 1)
        assert "no restart: node 1 does not answer any more" in ended.output


def with_checkpoints(job: JobByHand, wanted: bool) -> list[str]:
    """The options for checkpoints in one OBS of all nodes."""
    job.nodes[0].obs = job.root / "obs"
    (job.root / "obs" / "bucket").mkdir(parents=True)
    return job.nodes[0].mapping({}, CHECKPOINTS) if wanted else []


FAILS_ONCE = ["print('step: 1', flush=True)", "if attempt == '1' and rank == 1: time.sleep(1); sys.exit(9)",
              "time.sleep(600)"]  # fmt: skip


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_node_that_dies_after_the_go_ends_the_attempt_of_all(tmp_path: Path, checkpoints: bool) -> None:
    """The others would wait for it in the rendezvous, for up to half an hour with HCCL."""
    with closing(JobByHand(tmp_path, 3, FAILS_ONCE)) as job:
        job.start("--max-restarts", "3", *with_checkpoints(job, checkpoints))
        eventually(lambda: job.events(2, "restart"), "node 2 has the go")
        at = job.kill(2)
        for ended in job.ends(at, 0, 1).values():
            assert ended.code != 0, ended.output
            assert "node 2 does not answer any more" in ended.output, ended.output


DEAF = ["import signal", "signal.signal(signal.SIGTERM, signal.SIG_IGN)", *WORKS]


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_node_that_the_platform_stops_ends_the_attempt_of_all(tmp_path: Path, stopped: int) -> None:
    """At once, although its own ranks ignore the stop during the grace period."""
    train = [f"if rank == {stopped}:", *(f"    {line}" for line in DEAF), *WORKS]
    with closing(JobByHand(tmp_path, 3, train)) as job:
        job.start("--max-restarts", "3", "--stop-timeout", "15")
        job.running[stopped].signal(signal.SIGTERM)
        at = time.monotonic()
        for ended in job.ends(at, *job.others(stopped)).values():
            assert ended.code == 143, ended.output
            assert f"node {stopped} has ended with exit code 143" in ended.output
        assert job.running[stopped].process.poll() is None, "it still waits for its ranks"


def test_nodes_that_end_well_at_different_times_end_well(tmp_path: Path) -> None:
    train = [*WORKS[:1], "time.sleep(5 + 2 * rank)"]
    with closing(JobByHand(tmp_path, 3, train)) as job:
        job.start("--max-restarts", "1")
        assert [running.end().code for running in job.running] == [0, 0, 0]


def test_another_process_of_a_node_does_not_hide_that_the_first_has_died(tmp_path: Path) -> None:
    """A container that is started again alone calls node 0 before the loss is noticed."""
    with closing(JobByHand(tmp_path, 2, WORKS)) as job:
        job.start()
        at = job.kill(1)
        job.running[1] = job.nodes[1].start("--rendezvous", "torch", "train.py")
        is_named(job.ends(at, 0)[0], 1)
