"""The processes of a run: started in order, ended again in groups and in other sessions, never left."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import pytest

from ma_boot.errors import CannotCreate, CommandNotFound, NotExecutable
from ma_boot.node.supervisor.supervise import Limits, Observer, supervise
from ma_boot.node.supervisor.worker_group import Worker, WorkerGroup
from ma_boot.processes.orphan_guard import own_marker, processes_marked
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.result import RunResult
from tests.functional.node import alive, eventually
from tests.functional.supervisor.conftest import EventLog, Started, shell


class Stopping:
    """An observer that asks `why` all are to be stopped, at each check."""

    without = "ranks are no longer observed"

    def __init__(self, why: Callable[[], str]) -> None:
        self.why = why
        self.closed = 0

    def patience(self) -> float:
        return 0.05

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        return self.why()

    def close(self) -> None:
        self.closed += 1


Supervised = Callable[..., RunResult]


@pytest.fixture
def supervised(tmp_path: Path, inbox: SignalInbox, journal: EventLog) -> Supervised:
    """Supervises these scripts, one for each rank, to their end."""

    def run(*scripts: str, observers: Sequence[Observer] = (), limits: Limits = Limits()) -> RunResult:  # noqa: B008
        specs = [shell(tmp_path, rank, script) for rank, script in enumerate(scripts)]
        return supervise(specs, limits, inbox, journal, os.environ, "test", observers)

    return run


def end(group: WorkerGroup) -> None:
    """Waits for the workers, and records their ends."""
    for worker in group.workers:
        worker.process.wait(timeout=30)
        worker.collect(worker.started_ns, stopped=False)


class TestStart:
    """In order, until one cannot be started."""

    def test_all_carry_the_marker_and_lead_sessions(
        self, tmp_path: Path, started: Started, journal: EventLog
    ) -> None:
        with started(*["echo $MABOOT_RUN; ps -o sid= -p $$"] * 2) as group:
            pids = [worker.pid for worker in group.running()]
            assert group.labels() == ["rank 0", "rank 1"]
            assert [event["pid"] for event in journal.events("start")] == pids
            end(group)
            assert group.labels() == []
            outputs = [worker.exit.output.split() for worker in group.workers if worker.exit]
        assert outputs == [[own_marker("test"), str(pid)] for pid in pids]
        assert outputs == [(tmp_path / f"rank_{rank}.txt").read_text().split() for rank in (0, 1)]

    @pytest.mark.parametrize(
        ("change", "expected", "message"),
        [
            (
                {"argv": ("./missing",)},
                CommandNotFound,
                "rank 1 could not be started: ./missing: No such file",
            ),
            ({"cwd": "/no/dir"}, CommandNotFound, "rank 1 could not be started: /no/dir: No such file"),
            ({"argv": ("/tmp",)}, NotExecutable, "rank 1 could not be started: /tmp: Permission denied"),
            ({"cores": (4095,)}, NotExecutable, "rank 1 could not be started: sh: Invalid argument"),
            ({"log_file": "/dev/null/log"}, CannotCreate, "cannot create the log file /dev/null/log: "),
        ],
        ids=["missing", "no directory", "a directory", "no such core", "no log file"],
    )
    def test_the_start_ends_at_a_process_that_cannot_be_started(
        self,
        tmp_path: Path,
        started: Started,
        inbox: SignalInbox,
        journal: EventLog,
        change: dict[str, Any],
        expected: type,
        message: str,
    ) -> None:
        bad = shell(tmp_path, 1, "exec sleep 600")._replace(**change)
        with started("exec sleep 600") as group:
            pid = group.workers[0].pid
            error = group.start([bad, shell(tmp_path, 2, "exec sleep 600")], inbox, journal)
            assert type(error) is expected
            assert message in str(error)
            assert group.labels() == ["rank 0"]
            # between two execs a process has no environment to read
            eventually(lambda: processes_marked(own_marker("test")) == [pid], "the one that was started")
        assert not alive(pid)

    def test_a_stop_signal_ends_the_start(self, started: Started, inbox: SignalInbox) -> None:
        inbox.stops.append(signal.SIGTERM)
        with started("") as group:
            assert group.workers == []


class TestEnd:
    """Processes that the workers leave behind."""

    @pytest.mark.parametrize(
        ("script", "left"),
        [
            ("sleep 600 & echo $! > pid", ["children of rank 0"]),
            ("setsid sleep 600 & echo $! > pid", ["1 detached process"]),
            ("setsid sleep 600 & setsid sleep 600 & echo $! > pid", ["2 detached processes"]),
            ("true", []),
        ],
        ids=["in the group", "detached", "two", "nothing"],
    )
    def test_leftovers_are_named_and_signalled(
        self, tmp_path: Path, started: Started, script: str, left: list[str]
    ) -> None:
        with started(script) as group:
            end(group)
            eventually(lambda: group.left_behind() == left, f"left: {left}")
            group.signal(signal.SIGTERM)
            eventually(lambda: not _runs(tmp_path / "pid"), "it is gone")

    def test_running_process_counts_as_stopped_by_ma_boot(self, tmp_path: Path, started: Started) -> None:
        """For a request of another node: a rank may print its exception long before it ends."""
        script = "echo ValueError: no data; exec sleep 600"
        with started(shell(tmp_path, 3, script)) as group:
            (worker,) = group.workers
            eventually(lambda: worker.output.pump() or worker.output.tail(), "its words")
            ended = worker.so_far()
            assert (ended.label, ended.rank, ended.pid, ended.stopped) == ("rank 3", 3, worker.pid, True)
            assert (ended.code, ended.signal, ended.output) == (143, 15, "ValueError: no data\n")
            assert 0 < ended.seconds < 60
            assert ended.log_file == str(tmp_path / "rank_3.txt")
            assert worker.exit is None

    @pytest.mark.parametrize("script", ["sleep 600 & echo $! > pid", "setsid sleep 600 & echo $! > pid"])
    def test_leftovers_do_not_survive_the_block(self, tmp_path: Path, started: Started, script: str) -> None:
        with started(script) as group:
            end(group)
            eventually(lambda: bool(group.left_behind()) and _runs(tmp_path / "pid"), "it is left")
        eventually(lambda: not _runs(tmp_path / "pid"), "it is gone")

    def test_all_processes_are_reaped_when_the_supervisor_raises(
        self, tmp_path: Path, supervised: Supervised, journal: EventLog
    ) -> None:
        """So devices are free, and outputs complete, when outputs are uploaded."""
        (tmp_path / "deaf.sh").write_text("trap '' TERM; echo $$ > $1; while :; do sleep 0.05; done")
        script = "echo wakes the supervisor; setsid bash deaf.sh detached & exec bash deaf.sh rank"
        files = [tmp_path / "detached", tmp_path / "rank"]

        def broken() -> str:
            if all(file.exists() and file.read_text() for file in files):
                raise KeyboardInterrupt
            return ""

        open_before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(KeyboardInterrupt):
            supervised(script, observers=[Stopping(broken)])
        assert [Path(f"/proc/{file.read_text().strip()}").exists() for file in files] == [False, False]
        journal.logs.flush()  # it closes the log files
        assert len(os.listdir("/proc/self/fd")) == open_before

    def test_leftovers_have_a_grace_period(
        self, tmp_path: Path, supervised: Supervised, journal: EventLog
    ) -> None:
        script = "trap 'sleep 0.3; echo > ended; exit' TERM; echo > ready; while :; do sleep 0.05; done"
        (tmp_path / "daemon.sh").write_text(script)
        supervised("setsid bash daemon.sh & while [ ! -e ready ]; do sleep 0.05; done")
        assert (tmp_path / "ended").exists()
        assert "stopping processes that are left in the background: bash daemon.sh (pid " in journal.screen()

    def test_a_good_end_is_no_stop(self, supervised: Supervised, journal: EventLog) -> None:
        journal.say("begins")
        assert (supervised("exit 0").succeeded, journal.screen()) == (True, "[ma_boot] begins\n")
        assert journal.events("stop") == journal.events("kill") == journal.events("dropped") == []

    def test_a_failure_stops_the_others_at_once(self, supervised: Supervised, journal: EventLog) -> None:
        def seconds() -> float:
            supervised("exit 3", "exec sleep 600")
            failure, stop = journal.events("exit")[-2], journal.events("stop")[-1]
            return float(stop["monotonic_ns"] - failure["monotonic_ns"]) / 1e9

        assert any(seconds() < 0.9 for _ in range(3)), "a busy machine is late once or twice"

    def test_process_that_ends_before_the_stop_has_ended_by_itself(
        self, supervised: Supervised, journal: EventLog
    ) -> None:
        def halted() -> str:
            (pid,) = [event["pid"] for event in journal.events("start")]
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not alive(pid), "it has ended")
            return "a reason"

        run = supervised("echo wakes the supervisor; exec sleep 600", observers=[Stopping(halted)])
        assert [(ended.code, ended.stopped) for ended in run.exits] == [(137, False)]
        assert [event["reason"] for event in journal.events("stop")] == ["rank 0 was killed by SIGKILL"]

    def test_process_that_ignores_sigterm_is_killed_after_the_grace_period(
        self, supervised: Supervised, journal: EventLog
    ) -> None:
        deaf = "trap '' TERM; echo deaf > deaf; while :; do sleep 0.05; done"
        fails = "while [ ! -s deaf ]; do sleep 0.05; done; exit 3"
        run = supervised(deaf, fails, limits=Limits(stop_timeout=0.2))
        assert [(ended.rank, ended.code, ended.stopped) for ended in run.exits] == [
            (1, 3, False),
            (0, 137, True),
        ]
        assert [event["signal"] for event in journal.events("kill")] == [signal.SIGKILL]

    def test_failed_observer_is_closed_and_the_run_continues(
        self, supervised: Supervised, journal: EventLog
    ) -> None:
        broken, asks = Stopping(lambda: str(1 // 0)), Stopping(lambda: "a reason" if broken.closed else "")
        run = supervised("exec sleep 600", observers=[broken, asks])
        assert [(ended.code, ended.stopped) for ended in run.exits] == [(143, True)]
        line = "[ma_boot] warning: ranks are no longer observed: ZeroDivisionError: "
        assert journal.screen().count(line) == 1
        assert (broken.closed, asks.closed) == (1, 1)
        assert [event["reason"] for event in journal.events("stop")] == ["a reason"]

    @pytest.mark.parametrize(
        "script", ["env -i sleep 600 & echo $! > pid; wait", "setsid sleep 600 & echo $! > pid; wait"]
    )
    def test_no_process_survives_the_block(self, tmp_path: Path, started: Started, script: str) -> None:
        def interrupted() -> None:
            with started(f"trap '' TERM; {script}"):
                eventually(lambda: _runs(tmp_path / "pid"), "it runs")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        eventually(lambda: not _runs(tmp_path / "pid"), "it is gone")

    def test_a_detached_process_is_left_alone_while_a_worker_runs(
        self, tmp_path: Path, started: Started
    ) -> None:
        script = "trap 'echo > term' TERM; setsid sleep 600 & echo $! > pid; wait; wait"
        with started(script) as group:
            eventually(lambda: _runs(tmp_path / "pid"), "it runs")
            group.signal(signal.SIGTERM)
            eventually((tmp_path / "term").exists, "the worker has the signal")
            assert _runs(tmp_path / "pid")


def _runs(file: Path) -> bool:
    """Returns True if the process whose pid is in the file lives and has become `sleep`."""
    try:
        return Path(f"/proc/{int(file.read_text())}/cmdline").read_bytes().startswith(b"sleep\0")
    except (OSError, ValueError):
        return False
