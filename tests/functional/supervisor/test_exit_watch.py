"""The ends of processes: in the kernel's order, with the last output, and without spurious wake-ups."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Callable

import pytest

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor import exit_watch
from ma_boot.node.supervisor.exit_watch import ExitWatch
from ma_boot.node.supervisor.output import OutputPump
from ma_boot.node.supervisor.worker_group import WorkerGroup
from ma_boot.processes.control_group import OomCounters
from ma_boot.processes.orphan_guard import own_marker
from ma_boot.processes.signals import SignalInbox
from tests.functional.node import alive, eventually
from tests.functional.supervisor.conftest import EventLog, Started, shell

FOREVER = 30.0  # of a test


Watched = Callable[..., AbstractContextManager[tuple[ExitWatch, WorkerGroup]]]


@pytest.fixture
def watched(started: Started, inbox: SignalInbox, journal: EventLog) -> Watched:
    """A watch of a group that runs, as `started` starts it; without `pidfd` as on a kernel before 5.3."""

    @contextmanager
    def watch_group(*ranks: str | WorkerSpec, pidfd: bool = True) -> Iterator[tuple[ExitWatch, WorkerGroup]]:
        with (
            OutputPump(journal, inbox, 1 << 29, 1 << 30) as pump,
            started(*ranks) as group,
            ExitWatch(pump, inbox, own_marker(""), journal) as watch,
        ):
            for worker in group.workers:
                if not pidfd and worker.pidfd is not None:
                    os.close(worker.pidfd)
                    worker.pidfd = None
            watch.add(group.workers)
            yield watch, group

    return watch_group


def until(watch: ExitWatch, count: int, stopping: bool = False) -> None:
    """Waits for `count` ends."""
    deadline = time.monotonic() + FOREVER
    while len(watch.exits) < count:
        assert time.monotonic() < deadline
        watch.wait(FOREVER, stopping)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_simultaneous_ends_are_in_the_kernels_order(watched: Watched, order: tuple[int, ...]) -> None:
    with watched(*["exec sleep 600"] * 3) as (watch, group):
        for rank in order:
            os.kill(group.workers[rank].pid, signal.SIGKILL)
            eventually(lambda pid=group.workers[rank].pid: not alive(pid), "it has ended")  # type: ignore[misc]
        watch.wait(FOREVER)
        assert [ended.rank for ended in watch.exits] == list(order)
        assert {(ended.code, ended.signal, ended.stopped) for ended in watch.exits} == {
            (137, signal.SIGKILL, False)
        }
        assert len({ended.ended_ns for ended in watch.exits}) == 1, "when they were found to have ended"
        assert group.running() == []


@pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "an older kernel"])
def test_an_end_wakes_and_has_the_last_output(watched: Watched, journal: EventLog, pidfd: bool) -> None:
    with watched("exec sleep 600", "echo the last words; exit 3", pidfd=pidfd) as (watch, group):
        until(watch, 1)
        (end,) = watch.exits
        assert (end.rank, end.code, end.signal, end.output) == (1, 3, None, "the last words\n")
        assert 0 < end.seconds < FOREVER
        assert group.labels() == ["rank 0"]
        group.signal(signal.SIGTERM)
        until(watch, 2, stopping=True)
        assert [(event["rank"], event["stopped"]) for event in journal.events("exit")] == [
            (1, False),
            (0, True),
        ]


@pytest.mark.parametrize(
    ("script", "code", "signum"),
    [("kill -HUP $$", 129, 1), ("kill -KILL $$", 137, 9), ("exit 255", 255, None), ("exit 0", 0, None)],
)
def test_codes_are_those_of_a_shell(watched: Watched, script: str, code: int, signum: int | None) -> None:
    with watched(script) as (watch, _):
        until(watch, 1)
        assert (watch.exits[0].code, watch.exits[0].signal) == (code, signum)


@pytest.mark.parametrize(
    ("script", "stopping", "evidence"),
    [
        ("kill -KILL $$", False, True),
        ("exit 137", False, True),
        ("exit 247", False, True),
        ("kill -KILL $$", True, False),
        ("echo '  exitcode  : -9 (pid: 7)'; exit 1", False, True),
        ("echo '  exitcode  : -9 (pid: 7)'; exit 0", False, False),
        ("exit 136", False, False),
        ("exit 246", False, False),
    ],
)
def test_the_kernels_counters_are_asked_about_a_kill_that_was_not_ours(
    tmp_path: Path,
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    stopping: bool,
    evidence: bool,
) -> None:
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    (root / "proc" / "vmstat").write_text("oom_kill 3\n")
    monkeypatch.setattr(exit_watch, "OomCounters", lambda: OomCounters(root))
    with watched(script) as (watch, _):
        (root / "proc" / "vmstat").write_text("oom_kill 4\n")
        until(watch, 1, stopping)
        assert (watch.exits[0].oom is not None) is evidence


def test_cores_are_the_workers_alone(tmp_path: Path, watched: Watched) -> None:
    before = os.sched_getaffinity(0)
    spec = shell(tmp_path, 0, "grep Cpus_allowed_list /proc/self/status")._replace(cores=(min(before),))
    for own in (before, {max(before)}):
        os.sched_setaffinity(0, own)
        try:
            with watched(spec) as (watch, _):
                assert os.sched_getaffinity(0) == own
                until(watch, 1)
                assert watch.exits[0].output.split() == ["Cpus_allowed_list:", str(min(before))]
        finally:
            os.sched_setaffinity(0, before)


def test_a_signal_wakes(watched: Watched, inbox: SignalInbox) -> None:
    with watched("exec sleep 600") as (watch, _):
        began = time.monotonic()
        os.kill(os.getpid(), signal.SIGTERM)
        watch.wait(FOREVER)
        assert time.monotonic() - began < FOREVER / 2
        assert inbox.stops == [signal.SIGTERM]
        assert watch.exits == []
        began = time.monotonic()
        watch.wait(0.2)
        assert time.monotonic() - began >= 0.2, "it wakes once"


def test_output_is_read_again_after_the_pause_that_follows_a_read(
    watched: Watched, journal: EventLog
) -> None:
    script = "for n in 1 2 3; do echo $n; sleep 0.1; done; exec sleep 600"
    with watched(script) as (watch, _):
        deadline = time.monotonic() + FOREVER
        while "3" not in journal.screen():
            assert time.monotonic() < deadline
            watch.wait(0.5)
        assert journal.screen() == "[rank 0] 1\n[rank 0] 2\n[rank 0] 3\n"
