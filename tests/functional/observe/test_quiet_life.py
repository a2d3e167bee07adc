"""What shows that a quiet worker lives: its card computes (any, for a command with all), or data move."""

from __future__ import annotations

import math
import os
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from ma_boot.node.observe import quiet_life
from ma_boot.node.observe.quiet_life import END_SECONDS, QuietLife
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import process_usages
from ma_boot.processes.orphan_guard import process_stat
from ma_boot.processes.sockets import socket_bytes, sockets_of
from tests.functional.boot.stand_ins import stand_in
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import Started, shell
from tests.unit.observe.card_outputs import NPU_910B


@pytest.mark.parametrize(
    ("local_rank", "device", "computes"),
    [(0, "", True), (1, "", False), (1, "0", True), (0, "1", False), (0, "x", True), (None, "1", True)],
)
def test_a_card_that_computes_is_life(
    tmp_path: Path, started: Started, life: QuietLife, local_rank: int | None, device: str, computes: bool
) -> None:
    """Of the two cards the first one computes; a command that starts the ranks itself has both."""
    stand_in(tmp_path / "tools", "npu-smi", NPU_910B)
    environ = {"PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin", "ASCEND_DEVICE_ID": device}
    spec = shell(tmp_path, 0, "exec sleep 600")._replace(local_rank=local_rank, environ=environ)
    with started(spec) as group:
        began = time.monotonic()
        assert life.last_seen(group.workers[0]) == -math.inf
        life.check_devices(group.workers, 0.1)
        eventually(lambda: not life.is_reading_devices, "the look")
        seen = life.last_seen(group.workers[0])
        assert began < seen < time.monotonic() if computes else seen == -math.inf


def test_a_tool_that_answers_no_more_hides_no_hang(tmp_path: Path, started: Started, life: QuietLife) -> None:
    stand_in(tmp_path / "tools", "npu-smi", NPU_910B)
    environ = {"PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin", "ASCEND_DEVICE_ID": "1"}
    spec = shell(tmp_path, 0, "exec sleep 600")._replace(local_rank=0, environ=environ)
    with started(spec) as group:

        def is_undecided() -> bool:
            life.check_devices(group.workers, 0.1)
            eventually(lambda: not life.is_reading_devices, "the look")
            return life.is_undecided(group.workers[0])

        assert is_undecided(), "too few looks"
        (tmp_path / "tools" / "npu-smi").write_text("#!/bin/sh\nexit 1\n")
        assert not is_undecided()


def test_hanging_device_tool_delays_the_end_by_half_a_second(
    started: Started, life: QuietLife, monkeypatch: pytest.MonkeyPatch
) -> None:
    forever = threading.Event()

    class HangingTools:
        def __init__(self, environ: object) -> None:
            pass

        def read(self, cancel: object) -> None:
            forever.wait(60)

    monkeypatch.setattr(quiet_life, "CardTools", HangingTools)
    with started("exec sleep 600") as group:
        life.check_devices(group.workers, 0.1)
        began = time.monotonic()
        life.close()
        assert 0.5 <= END_SECONDS <= time.monotonic() - began < END_SECONDS + 1
    forever.set()


def test_data_that_processes_move_is_life(tmp_path: Path, started: Started, life: QuietLife) -> None:
    os.mkfifo(tmp_path / "go")
    program = f"read line <go; cat {sys.executable} >copy; touch done; exec sleep 600"
    with started(program) as group:
        worker = group.workers[0]

        def waits() -> bool:
            life.check_data({worker.pid: [worker.pid]})
            return bool(life.last_seen(worker) == -math.inf)

        eventually(
            lambda: Path(f"/proc/{worker.pid}/wchan").read_text() not in ("", "0"), "it waits for the FIFO"
        )
        assert [waits(), waits()] == [True, True], "it only waits"
        (tmp_path / "go").write_text("go\n")
        eventually((tmp_path / "done").exists, "it has copied")
        life.check_data({worker.pid: [worker.pid]})
        assert life.last_seen(worker) > -math.inf


RECEIVE = """
import os, socket, sys
own = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while own.recv(1 << 16): pass
"""


@pytest.mark.parametrize(
    ("size", "is_life"),
    [(1 << 20, True), (1000, False), (0, False)],
    ids=["a download", "heartbeats", "a wait"],
)
def test_received_data_is_activity_unless_it_is_a_heartbeat(
    tmp_path: Path, started: Started, life: QuietLife, size: int, is_life: bool
) -> None:
    """`recv` into memory, which /proc/PID/io does not count."""
    (tmp_path / "receive.py").write_text(RECEIVE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with started(f"exec {sys.executable} receive.py {port}") as group:
            connection, _ = server.accept()
            with connection:
                worker = group.workers[0]
                eventually(lambda: sleeps(worker.pid), "it waits for data")
                life.check_data({worker.pid: [worker.pid]})
                began = time.monotonic()
                connection.sendall(b"x" * size)
                eventually(lambda: received(worker.pid) >= size, "it has what was sent")
                eventually(lambda: time.monotonic() > began + 0.1, "in 10 ms, 1,000 bytes are no heartbeat")
                life.check_data({worker.pid: [worker.pid]})
                assert (life.last_seen(worker) > -math.inf) is is_life


def sleeps(pid: int) -> bool:
    return (process_stat(pid) or [""])[0] == "S" and bool(sockets_of(pid))


def received(pid: int) -> int:
    moved = socket_bytes()
    return max((moved[inode] for inode in sockets_of(pid) if inode in moved), default=0)


def test_the_sockets_of_a_process_that_has_ended_are_none() -> None:
    assert sockets_of(2**22 + 1) == []


IDLE = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nopen('up', 'w').close()\nwhile True: pass"


def test_a_rank_that_an_overloaded_machine_gives_no_core_is_alive(
    tmp_path: Path, started: Started, life: QuietLife
) -> None:
    """A program that runs when nobody else wants the core, beside one that always does."""
    core = min(os.sched_getaffinity(0))
    pinned = f"exec taskset -c {core} {sys.executable} -c"
    with started(f'{pinned} "{IDLE}"', f'{pinned} "while True: pass"') as group:
        worker = group.workers[0]
        eventually((tmp_path / "up").exists, "it runs")
        life.check_data({worker.pid: [worker.pid]})
        began = usage(worker.pid)
        eventually(lambda: seen(life, worker) > -math.inf, "it is seen to want the core")
        assert usage(worker.pid) - began < 1


def seen(life: QuietLife, worker: Worker) -> float:
    """When it has last shown life, by a look some time after the one before."""
    time.sleep(0.3)
    life.check_data({worker.pid: [worker.pid]})
    return life.last_seen(worker)


def usage(pid: int) -> float:
    """Its CPU seconds."""
    return process_usages()[pid].cpu
