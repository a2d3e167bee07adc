"""A node's checkpoints through real starts of ma_boot, with the embedded OBS server."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.functional.checkpoints.job import TRAINING, Job
from tests.functional.checkpoints.output import keys, manifests, steps_of
from tests.functional.node import Node, eventually
from tests.obs import MemoryObs


@pytest.fixture
def job(node: Node, obs: MemoryObs) -> Job:
    return Job(node, obs)


def test_start_after_sigkill_resumes_from_the_newest_complete_step(job: Job) -> None:
    job.go(10, 20, 30)
    job.node.variables["TMPDIR"] = str(job.node.root)  # for what the killed one leaves
    running = job.node.start(*job.arguments(100))
    eventually(lambda: job.published() >= 2, "two steps in OBS")
    eventually(lambda: (job.out / "iter_40/rank_1.bin").exists(), "a step that may not be published yet")
    running.signal(signal.SIGKILL)
    running.end()
    step = steps_of(manifests(job.store))[0]
    job.go(*range(40, 200, 10))
    ended = job.node.boot(*job.arguments(60))
    assert ended.code == 0, ended.output
    for rank in (0, 1):
        assert f"rank {rank} resumes from {step} of obs://bucket/ckpt/attempt-0000" in ended.output
    assert f"found [{step}]" in ended.output
    assert f"resuming from step {step} of attempt-000001-" in ended.output
    assert "step 60 is the last one of this node, step 60 the newest complete one" in ended.output
    assert [
        key for key in keys(job.store) if "/attempt-000002-" in key and key.endswith("iter_60/rank_1.bin")
    ]
    assert not [key for key in keys(job.store) if "aside" in key or "ckpt/iter_" in key]
    assert "ckpt/go_30" in keys(job.store), "files of no checkpoint are uploaded as ordinary ones"


def test_a_stop_gives_up_the_step_that_is_being_written(job: Job) -> None:
    job.go(10)
    late = "    while rank == '1' and step == 20: time.sleep(0.02)\n    (out / f"
    (job.node.home / "train.py").write_text(TRAINING.replace("    (out / f", late, 1))
    running = job.node.start(*job.arguments(100))
    eventually(lambda: job.published() == 1, "the first step in OBS, as the second one has begun")
    running.signal()
    ended = running.end()
    assert ended.code == 128 + signal.SIGTERM
    assert "checkpoint step 20 was never published: no file of rank 1" in ended.output
    assert job.published() == 1
    assert "when the training ended, step 10 had been complete for" in ended.output


def test_a_checkpoint_that_a_killed_rank_was_writing_is_not_published_while_the_others_are_stopped(
    job: Job,
) -> None:
    job.go(10)
    torn = """
    if step == 30 and rank == "1":
        (out / "iter_30/rank_1.bin").write_bytes(b"half of it")
        os.kill(os.getpid(), 9)
    while (out"""
    text = TRAINING.replace("\n    while (out", torn).replace(
        "\nbegin", "\nimport signal\nsignal.signal(15, signal.SIG_IGN)\nbegin", 1
    )
    (job.node.home / "train.py").write_text(text)
    running = job.node.start("--stop-timeout", "3", *job.arguments(100))
    eventually(lambda: job.published() == 2, "steps 10 and 20 in OBS")
    job.go(20)
    ended = running.end()
    assert ended.code == 128 + signal.SIGKILL
    assert "step 20 is the last one of this node" in ended.output, ended.output
    assert "checkpoint step 30 was never published: iter_30/rank_" in ended.output, ended.output
    assert "may still have been written to when a process died" in ended.output


def test_restart_in_place_resumes_from_the_newest_published_step(job: Job) -> None:
    job.go(10)
    (job.node.home / "train.py").write_text(
        TRAINING.replace("    while (out", "    if step == 30: sys.exit(3)\n    while (out")
    )
    job.node.variables["MABOOT_START_SECONDS"] = "0"
    running = job.node.start("--max-restarts", "1", *job.arguments(100))
    eventually(lambda: job.published() == 2, "step 20 in OBS, as it has the names of step 10")
    job.go(20)
    running.until("starting attempt 2 of 2")
    (job.node.home / "train.py").write_text(TRAINING)
    job.go(*range(30, 200, 10))
    ended = running.end()
    assert ended.code == 0, ended.output
    assert "rank 1 resumes from 20 of obs://bucket/ckpt/attempt-000001-" in ended.output
    assert "found [20]" in ended.output
    assert "step 100 the newest complete one" in ended.output


def test_a_second_job_at_the_url_of_one_that_runs_is_refused_before_its_training(
    job: Job, tmp_path: Path
) -> None:
    other = Job(Node(tmp_path / "other"), job.obs)
    other.node.complete_table()
    job.node.variables["MA_VJ_NAME"], other.node.variables["MA_VJ_NAME"] = "first", "second"
    running = job.node.start(*job.arguments(20))
    running.until("resumes from 0")
    refused = other.node.boot(*other.arguments(20))
    assert refused.code == 78
    assert "obs://bucket/ckpt/ is in use: job first has begun attempt-000001-" in refused.output
    assert "resumes from" not in refused.output
    job.go(10, 20)
    assert running.end().code == 0
    other.go(10, 20, 30)
    ended = other.node.boot(*other.arguments(30))
    assert ended.code == 0, ended.output
    assert "rank 1 resumes from 20 of obs://bucket/ckpt/attempt-000001-" in ended.output
