"""Processes that a command leaves in the background: for which the job waits, and for how long."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.scripts import leftovers
from ma_boot.node.supervisor import background
from ma_boot.node.supervisor.background import Background
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.orphan_guard import MARKER_VARIABLE, own_marker, processes_marked
from ma_boot.processes.signals import signal_process
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import EventLog

GIVEN = {"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "1"}  # of the node, as MindCluster has it
STEPS = "import time\nfor step in range(600): print(step, flush=True); time.sleep(0.05)\n"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leftovers, background):
        monkeypatch.setattr(module, "LEFT_SECONDS", 0.5)
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.5)


@contextmanager
def left(place: Path, script: str, journal: EventLog, rank: int | None = None) -> Iterator[Background]:
    """The background of a script that has ended."""
    marker = own_marker(f"test_{os.path.basename(place)}")
    (place / "steps.py").write_text(STEPS)
    spec = WorkerSpec(
        "command", ("bash", "-c", script), str(place), GIVEN, str(place / "log"), rank, leaves_ranks=True
    )
    worker = Worker(spec, {MARKER_VARIABLE: marker}, journal)
    assert worker.process.wait(30) == 0
    try:
        yield Background(worker, marker, journal)
    finally:
        for pid in processes_marked(marker):
            signal_process(pid, signal.SIGKILL)
        worker.collect(0, stopped=True)
        worker.output.close()


def is_awaited(background: Background) -> bool:
    """Whether the job still waits after all looks of the first time."""

    def is_decided() -> bool:
        background.worker.output.pump()
        return background.is_over(False) or background.announced

    eventually(is_decided, "it is decided")
    return background.announced


@pytest.mark.parametrize(
    ("script", "awaited"),
    [
        ("RANK_ID=0 DEVICE_ID=0 sleep 600 >/dev/null &", True),
        ("OMPI_COMM_WORLD_RANK=1 sleep 600 &", True),
        ("RANK=1 LOCAL_RANK=1 sleep 600 &", True),
        (f"nohup {sys.executable} steps.py > train.log 2>&1 &", True),
        (f"setsid {sys.executable} steps.py > train.log 2>&1 &", True),
        (f"{sys.executable} steps.py &", True),  # its output is that of the command
        (f"bash -c '{sys.executable} steps.py | tee train.log; true' &", True),
        ("sleep 600 &", False),  # RANK=0 is the node's
        ("(while true; do sleep 0.1; date >> smi.log; done) &", False),
        (
            f'{sys.executable} -c \'open("up", "w"); import time; time.sleep(600)\' > server.log &'
            " until [ -e up ]; do sleep 0.1; done; sleep 0.5;",
            False,
        ),
        (f"{sys.executable} steps.py > /dev/null 2>&1 &", False),
        (f"cp steps.py tensorboard; {sys.executable} tensorboard > board.log 2>&1 &", False),
    ],
)
def test_job_waits_for_ranks_and_trainings_only(
    tmp_path: Path, journal: EventLog, script: str, awaited: bool
) -> None:
    with left(tmp_path, f"{script} sleep 0.3", journal) as background:
        assert is_awaited(background) is awaited
        assert ("waiting for the processes that it left in the background" in journal.screen()) is awaited
        if awaited:
            assert background.patience() > 0, "it does not look all the time"


def test_rank_that_leaves_a_process_of_another_session_is_over(tmp_path: Path, journal: EventLog) -> None:
    """It may be of another rank."""
    script = f"setsid {sys.executable} steps.py > train.log 2>&1 & sleep 0.3"
    with left(tmp_path, script, journal, rank=0) as background:
        assert not is_awaited(background)


def test_wait_ends_with_the_last_process(tmp_path: Path, journal: EventLog) -> None:
    script = "RANK_ID=0 DEVICE_ID=0 bash -c 'while [ ! -e end ]; do sleep 0.05; done' & sleep 0.3"
    with left(tmp_path, script, journal) as background:
        assert is_awaited(background)
        (tmp_path / "end").touch()
        eventually(lambda: background.is_over(True), "the end of the rank ends the wait")
