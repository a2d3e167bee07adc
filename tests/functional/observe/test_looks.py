"""What the detector looks at, and when: orphans of ranks, cards of quiet ranks; on a clock that the test sets."""

from __future__ import annotations

import math
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.observe import quiet_life
from ma_boot.node.observe.hangs import hang_detector
from ma_boot.node.observe.hangs.hang_detector import HangDetector
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.observe.quiet_life import QuietLife
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import process_usages
from tests.functional.node import eventually
from tests.functional.observe.conftest import Detecting, Others, set_last_round
from tests.functional.supervisor.conftest import EventLog, Started, shell
from tests.unit.observe.card_outputs import NPU_910B

TIMEOUT = 160.0  # seconds, so it looks every 20
IDLE = NPU_910B.replace(" 97 ", " 0  ")


class Clock:
    """Stands in for the module `time` of those who judge how long a rank is quiet; `now` stands still."""

    def __init__(self) -> None:
        self.now = (
            math.ceil(time.monotonic()) + 1000.0
        )  # after all that was printed; whole, so sums are exact

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(hang_detector, "time", clock)
    monkeypatch.setattr(quiet_life, "time", clock)
    return clock


class Tool:
    """A stand-in of npu-smi that notes when it is asked, and answers in this order; the last answer stays."""

    def __init__(self, directory: Path, *answers: str) -> None:
        directory.mkdir()
        self.path = f"{directory}:/usr/bin:/bin"
        self._asked = directory / "asked"
        for number, answer in enumerate(answers, 1):
            (directory / f"answer.{number}").write_text(answer)
        last = len(answers)
        tool = directory / "npu-smi"
        tool.write_text(
            f"#!/bin/sh\ncd {directory}\ndate +%s.%N >>asked\nn=$(wc -l <asked)\n"
            f"[ $n -gt {last} ] && n={last}\nexec cat answer.$n\n"
        )
        tool.chmod(0o755)

    def times(self) -> list[float]:
        """When it was asked so far."""
        return [float(line) for line in self._asked.read_text().split()] if self._asked.exists() else []


def rank(directory: Path, number: int, script: str = "exec sleep 600", **environ: str) -> WorkerSpec:
    spec = shell(directory, number, script)
    return spec._replace(local_rank=number, environ={**spec.environ, **environ})


def hung(detector: HangDetector, workers: list[Worker], clock: Clock) -> list[str]:
    """Whom a check names, as if stacks had been taken just now: so none are."""
    set_last_round(detector, clock.now)
    return detector.find_hangs(workers)


@pytest.mark.parametrize(
    ("timeout", "interval"), [(160.0, 20.0), (240.0, 30.0), (100_000.0, 30.0), (None, math.inf)]
)
def test_it_looks_eight_times_in_the_timeout_and_at_least_every_half_minute(
    detecting: Detecting, timeout: float | None, interval: float
) -> None:
    with detecting(timeout) as detector:
        assert detector.patience() == pytest.approx(interval, abs=0.9)


class Broken:
    """A worker at which nobody may look."""

    exit = None

    @property
    def spec(self) -> WorkerSpec:
        raise ZeroDivisionError("broken")


@pytest.mark.parametrize("timeout", [None, 600.0])
def test_it_looks_at_no_process_before_it_is_time(
    detecting: Detecting, journal: EventLog, timeout: float | None
) -> None:
    with detecting(timeout) as detector:
        assert detector.check([cast(Worker, Broken())], False) == ""
    assert journal.screen() == ""


def test_after_a_look_the_next_one_is_an_interval_later(detecting: Detecting) -> None:
    with detecting(TIMEOUT) as detector:
        detector.state = detector.state._replace(next_check=0.0)
        assert detector.patience() == 0
        assert detector.check([], False) == ""
        assert detector.patience() == pytest.approx(20.0, abs=2.0)


BURNING = """
import os, sys
with open(sys.argv[1], "w") as file:
    file.write(f"{os.getpid()}\\n")
while True: pass
"""


@pytest.mark.parametrize(
    ("ranks", "prefix", "named"),
    [
        (2, (), ["rank 0"]),
        (2, ("env", "--unset=LOCAL_RANK"), ["rank 0", "rank 1"]),
        (1, ("env", "--unset=LOCAL_RANK"), []),
        (1, ("env", "-i"), ["rank 0"]),
        (1, ("env", "MABOOT_RUN=a:1:b"), ["rank 0"]),
    ],
    ids=["of a rank", "of whom is not known", "of the only one", "not of the job", "of another job"],
)
def test_usage_of_an_orphan_belongs_to_its_rank(
    tmp_path: Path,
    started: Started,
    detecting: Detecting,
    journal: EventLog,
    clock: Clock,
    ranks: int,
    prefix: Sequence[str],
    named: list[str],
) -> None:
    """It has a session of its own, so only what it has inherited tells whose it is."""
    burn = [*prefix, sys.executable, "-c", BURNING, str(tmp_path / "pid")]
    start = f"(setsid {' '.join(map(shlex.quote, burn))} &); exec sleep 600"
    specs = [rank(tmp_path, 0, LOCAL_RANK="0"), rank(tmp_path, ranks - 1, start, LOCAL_RANK=f"{ranks - 1}")]
    with started(*specs[-ranks:]) as group, detecting(2.0) as detector:
        eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "it runs")
        orphan = int((tmp_path / "pid").read_text())
        eventually(lambda: process_usages()[orphan].parent == os.getpid(), "it has lost its parent")
        clock.now += 0.25
        assert hung(detector, group.workers, clock) == []
        before = process_usages()[orphan].cpu
        eventually(lambda: process_usages()[orphan].cpu > before + 0.2, "it uses CPU time")
        clock.now += 2.0
        assert hung(detector, group.workers, clock) == named
        assert "no longer" not in journal.screen()
        os.kill(orphan, signal.SIGKILL)


def test_the_time_in_which_stacks_are_taken_is_not_quiet(
    tmp_path: Path, started: Started, detecting: Detecting, journal: EventLog, clock: Clock
) -> None:
    peers = Others(1)
    with started(rank(tmp_path, 0)) as group, detecting(2.0, peers) as detector:
        clock.now += 0.25
        assert detector.find_hangs(group.workers) == []
        peers.messages.append(PeerMessage(1, "hanging", {}, clock.now))
        clock.now += 900.0
        eventually(lambda: detector.check(group.workers, False) or journal.events("stacks"), "the report")
        clock.now += 1.0
        assert hung(detector, group.workers, clock) == []


@pytest.mark.parametrize(("ranks", "named"), [(1, ["rank 0"]), (0, ["command"])])
def test_other_processes_are_watched_where_there_are_no_ranks(
    tmp_path: Path, started: Started, detecting: Detecting, clock: Clock, ranks: int, named: list[str]
) -> None:
    """Beside ranks it is MindSpore's scheduler, which waits for them."""
    command = rank(tmp_path, 7)._replace(label="command", rank=None)
    with started(command, *[rank(tmp_path, 0)][:ranks]) as group, detecting(2.0) as detector:
        clock.now += 0.25
        assert hung(detector, group.workers, clock) == []
        clock.now += 2.0
        assert hung(detector, group.workers, clock) == named


def test_an_idle_card_is_looked_at_again_after_a_pause_until_it_computes(
    tmp_path: Path, started: Started, life: QuietLife
) -> None:
    tool = Tool(tmp_path / "tools", IDLE, NPU_910B, IDLE)
    with started(rank(tmp_path, 0, PATH=tool.path)) as group:
        life.check_devices(group.workers, 60.0)
        eventually(lambda: life.last_seen(group.workers[0]) > 0, "it was seen to compute")
        first, second = tool.times()
        assert second - first >= 1.0


def test_all_cards_are_looked_at_until_the_time_is_over(
    tmp_path: Path, started: Started, life: QuietLife, clock: Clock
) -> None:
    """One computes, the other one does not; of a short time the pauses are shorter."""
    tool = Tool(tmp_path / "tools", NPU_910B)
    specs = [rank(tmp_path, number, PATH=tool.path) for number in range(2)]

    def short_pause() -> bool:
        times = tool.times()
        return any(later - earlier < 0.5 for earlier, later in zip(times, times[1:]))

    with started(*specs) as group:
        life.check_devices(group.workers, 0.08)
        eventually(short_pause, "another look")
        assert life.last_seen(group.workers[0]) == -math.inf, "it is looking"
        clock.now += 1
        eventually(lambda: life.last_seen(group.workers[0]) > -math.inf, "the time is over")
        assert life.last_seen(group.workers[1]) == -math.inf


def test_cards_are_looked_at_from_half_the_timeout_on(
    tmp_path: Path, started: Started, detecting: Detecting, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """And each look is over at the next check: so whose card computes is not named."""
    monkeypatch.setattr(quiet_life, "SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(quiet_life, "IDLE_READINGS", 9)  # this clock hardly leaves time for more
    tool = Tool(tmp_path / "tools", IDLE, NPU_910B)
    specs = [rank(tmp_path, number, PATH=tool.path) for number in range(2)]
    named: list[str] = []
    with started(*specs) as group, detecting(TIMEOUT) as detector:
        clock.now += 17
        for quiet in range(0, 180, 20):
            before = len(tool.times())
            clock.now += 3
            named += hung(detector, group.workers, clock)
            assert quiet > 0 or detector.activity.quiet_life is None, (
                "nothing of it is loaded before a rank is quiet"
            )
            if quiet >= TIMEOUT / 2:
                eventually(lambda before=before: len(tool.times()) >= before + 3, "looks")  # type: ignore[misc]
                clock.now += 17
                life = detector.activity.quiet_life
                assert life is not None
                eventually(lambda life=life: not life.is_reading_devices, "it is over")  # type: ignore[misc]
            else:
                assert tool.times() == []
                clock.now += 17
    assert named == ["rank 1"]


@pytest.mark.parametrize(("written", "lives"), [(50_000, False), (150_000, False), (250_000, True)])
def test_a_rank_that_moves_less_than_64_kib_a_second_only_polls(
    tmp_path: Path, started: Started, life: QuietLife, clock: Clock, written: int, lives: bool
) -> None:
    """The test itself stands in for a process of the rank: in three seconds it writes so many bytes.

    To a disk they would count as written twice, by the process and to the storage.
    """
    with started(rank(tmp_path, 0)) as group:
        (worker,) = group.workers
        life.check_data({worker.pid: [os.getpid()]})
        Path("/dev/null").write_bytes(b"x" * written)
        clock.now += 3.0
        life.check_data({worker.pid: [os.getpid()]})
        assert life.last_seen(worker) == (clock.now if lives else -math.inf)
