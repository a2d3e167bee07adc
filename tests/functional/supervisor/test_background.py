"""Time for which background processes of a command hold the job."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.exit_watch import Background
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import signal_group
from tests.functional.supervisor.conftest import EventLog

GIVEN = {"PATH": os.environ["PATH"], "RANK": "0"}  # of the node, as MindCluster has it


@pytest.mark.parametrize(
    ("job", "holds"),
    [
        ("RANK_ID=0 sleep 600", True),
        ("OMPI_COMM_WORLD_RANK=1 sleep 600", True),
        ("RANK=1 sleep 600", True),
        ("sleep 600", False),  # a monitor; RANK=0 is the node's
        ("while true; do sleep 600; done", False),
    ],
)
def test_a_rank_holds_the_job_and_a_monitor_only_for_a_minute(
    tmp_path: Path, journal: EventLog, job: str, holds: bool
) -> None:
    argv = ("bash", "-c", f"({job}) & sleep 0.2")
    spec = WorkerSpec("command", argv, str(tmp_path), GIVEN, str(tmp_path / "log"), leaves_ranks=True)
    worker = Worker(spec, {}, journal)
    assert worker.process.wait(30) == 0
    try:
        assert not Background(worker).is_over(), "in the first minute everything does"
        left = Background(worker, grace=0.0)
        assert left.is_over() is not holds
        if holds:
            assert left.patience() > 0, "it does not look all the time"
    finally:
        signal_group(worker.pid, signal.SIGKILL)
        worker.collect(0, stopped=True)
        worker.output.close()
