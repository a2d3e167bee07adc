"""A node with GPUs between two attempts, with a fake of NVML's library."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ma_boot.node.boot.node_health import broken_gpus
from ma_boot.node.observe.metrics.gpus import Gpu, GpuReading
from tests.functional.gpus.fake_gpus import FakeGpus
from tests.functional.node import Node, eventually

FAILS = "import os, sys, time; time.sleep(0.2); sys.exit(0 if os.environ['MABOOT_ATTEMPT'] == '2' else 7)"

FREE = 600 << 20
RESTARTS = ("--rendezvous", "none", "--max-restarts", "3", "--metrics")


@pytest.fixture
def gpus(tmp_path: Path) -> FakeGpus:
    gpus = FakeGpus(tmp_path)
    gpus.set(count=2, memory=FREE)
    return gpus


@pytest.fixture
def node(tmp_path: Path, gpus: FakeGpus) -> Node:
    return Node(tmp_path, variables={"RANK_TABLE_FILE": "", "MABOOT_START_SECONDS": "0", **gpus.variables})


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"gpu_1_ecc": 2}, "GPU 1 has 2 uncorrectable ECC errors"),
        ({"gpu_1_failure": 1}, "GPU 1: a row of its memory could not be remapped"),
        ({"gpu_0_recovery": 1}, "GPU 0: the driver asks to reset the GPU"),
        ({"gpu_1_handle": "lost"}, "GPU 1 does not answer its driver"),
        ({"gpu_0_xid": 95}, "GPU 0: Xid 95 (uncontained memory error)"),
    ],
)
def test_broken_gpu_needs_new_pods(node: Node, gpus: FakeGpus, values: dict[str, object], why: str) -> None:
    gpus.set(**values)
    ended = node.boot(*RESTARTS, "off", "python", "-c", FAILS)
    assert ended.code == 7, ended.output
    assert f"no restart: hardware: needs new pods (node 0: {why})" in ended.output


def test_missing_gpus_are_defects_and_an_unanswered_question_is_none() -> None:
    two = GpuReading((Gpu(0), Gpu(1)))
    assert [*broken_gpus(two, 4)] == ["the driver shows 2 of 4 GPUs"]
    assert [*broken_gpus(two, 2)] == []
    assert [*broken_gpus(None, 2)] == []


def test_next_attempt_starts_once_the_memory_of_the_killed_one_is_free(node: Node, gpus: FakeGpus) -> None:
    gpus.set(gpu_1_memory=69 << 30)
    booting = node.start(*RESTARTS, "off", "python", "-c", FAILS)
    eventually(lambda: any(event["kind"] == "restart" for event in node.events()), "the verdict")
    threading.Event().wait(1.5)
    starts = [event for event in node.events() if event["kind"] == "start"]
    assert len(starts) == node.devices, "the second attempt waits"
    gpus.set(gpu_1_memory=FREE)
    ended = booting.end()
    assert ended.code == 0, ended.output


def test_stop_signal_ends_the_wait_for_memory(node: Node, gpus: FakeGpus) -> None:
    gpus.set(memory=69 << 30)
    booting = node.start(*RESTARTS, "off", "python", "-c", FAILS)
    eventually(lambda: any(event["kind"] == "restart" for event in node.events()), "the verdict")
    booting.signal()
    assert booting.end().code == 143


def test_driver_that_does_not_answer_prevents_no_restart(node: Node, gpus: FakeGpus) -> None:
    gpus.set(init="unsupported")
    assert node.boot(*RESTARTS, "off", "python", "-c", FAILS).code == 0
