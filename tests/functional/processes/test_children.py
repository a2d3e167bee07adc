"""Child processes: run, reaped, guarded, and found again by a later start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ma_boot.errors import Stopped
from ma_boot.processes import orphan_guard
from ma_boot.processes.children import guarded, reap_orphans, run_child, stop_leftovers
from ma_boot.processes.orphan_guard import MARKER_VARIABLE, own_marker, processes_marked
from ma_boot.processes.signals import SignalInbox
from tests.functional.node import alive, eventually

LOADED = """
import os, sys
sys.path.append(os.path.dirname(sys.argv[1]))
import orphan_guard
print(*sys.modules)
"""
PATH = {"PATH": "/usr/bin:/bin"}


def run(script: str, inbox: SignalInbox, directory: Path) -> int:
    return run_child(["sh", "-c", script], PATH, inbox, lambda: None, cwd=str(directory))


def number_in(file: Path) -> int:
    return int(eventually(lambda: file.exists() and file.read_text().strip(), f"{file.name} is written"))


class TestRunChild:
    """A program and its process group, to their end."""

    @pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$", -9)])
    def test_its_exit_code(self, tmp_path: Path, inbox: SignalInbox, script: str, code: int) -> None:
        assert run(script, inbox, tmp_path) == code

    def test_the_rest_of_its_group_is_killed(self, tmp_path: Path, inbox: SignalInbox) -> None:
        assert run("sleep 600 & echo $! > pid", inbox, tmp_path) == 0
        pid = number_in(tmp_path / "pid")
        eventually(lambda: not alive(pid), "it is gone")

    def test_a_stop_signal_ends_it(self, tmp_path: Path, inbox: SignalInbox) -> None:
        script = "trap '' TERM; echo $$ > pid; kill $PPID; while :; do sleep 1; done"
        with pytest.raises(Stopped) as stopped:
            run(script, inbox, tmp_path)
        assert stopped.value.signum == signal.SIGTERM
        assert not alive(number_in(tmp_path / "pid"))


class TestReaping:
    """`reap_orphans` reaps adopted processes only."""

    def test_an_adopted_process_is_reaped(self) -> None:
        child = subprocess.Popen(["true"])
        eventually(lambda: not alive(child.pid), "it has ended")
        reap_orphans([])
        assert not Path(f"/proc/{child.pid}").exists()
        child.wait()

    def test_the_exit_code_of_a_child_is_left_to_popen(self) -> None:
        with subprocess.Popen(["sh", "-c", "exit 3"]) as child:
            eventually(lambda: not alive(child.pid), "it has ended")
            reap_orphans([child.pid])
            assert child.wait() == 3


class TestGuard:
    """Guard process, which outlives ma_boot."""

    def test_it_does_not_carry_our_marker(self) -> None:
        marker = own_marker("guarded")
        with guarded(marker, {**PATH, MARKER_VARIABLE: marker}):
            assert processes_marked(marker) == []

    def test_its_death_does_not_affect_the_block(self) -> None:
        with guarded(own_marker("guarded"), PATH):
            (guard,) = eventually(guards, "the guard runs")
            os.kill(guard, signal.SIGKILL)
            eventually(lambda: not alive(guard), "the guard has ended")
            reap_orphans([])
        assert guards() == []


class TestLeftovers:
    """Processes whose ma_boot has ended."""

    @pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["obedient", "deaf"])
    def test_they_are_stopped_and_then_killed(self, tmp_path: Path, inbox: SignalInbox, trap: str) -> None:
        container = f"left-{os.getpid()}"
        gone = own_marker(container).replace(f":{os.getpid()}:", ":999999999:")
        script = f"{trap}echo $$ > pid; while :; do sleep 0.1; done"
        with subprocess.Popen(
            ["sh", "-c", script], cwd=tmp_path, env={**PATH, MARKER_VARIABLE: gone}
        ) as left:
            number_in(tmp_path / "pid")
            stop_leftovers("another container", 0.2, inbox, print, print)
            assert left.poll() is None
            lines: list[str] = []
            events: list[tuple[str, ...]] = []
            began = time.monotonic()
            stop_leftovers(
                container, 0.2, inbox, lines.append, lambda kind, **fields: events.append((kind, *fields))
            )
            assert left.wait(timeout=30) == (-signal.SIGKILL if trap else -signal.SIGTERM)
            assert not trap or time.monotonic() - began >= 0.2
        assert len(lines) == 1
        assert events == [("left-over", "pids")]


def guards() -> list[int]:
    """The guards of this process's marker."""
    lines = {
        int(file.parent.name): file.read_text()
        for file in Path("/proc").glob("[0-9]*/cmdline")
        if file.exists()
    }
    return [pid for pid, line in lines.items() if "orphan_guard" in line and own_marker("guarded") in line]


def test_the_guard_is_ready_before_any_signal_and_loads_little(tmp_path: Path) -> None:
    with SignalInbox(), guarded(own_marker("guarded"), PATH) as pid:
        status = Path(f"/proc/{pid}/status").read_text()
        blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            assert blocked >> (signum - 1) & 1
        loaded = subprocess.run(
            [sys.executable, "-I", "-S", "-c", LOADED, orphan_guard.__file__], capture_output=True, text=True
        ).stdout.split()
    assert "orphan_guard" in loaded
    assert set(loaded) & {"typing", "signal", "enum", "re", "collections"} == set()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set(), "ma_boot itself still gets its signals"
