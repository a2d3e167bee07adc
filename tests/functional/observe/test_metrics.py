"""The sampling of a run: it ends with the run, and never delays it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.observe.metrics.output_reader import OutputReader
from ma_boot.node.observe.metrics.sampler import FINISH_SECONDS, Metrics, Sampler, Sampling
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.signals import SignalInbox
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import EventLog


class Output:
    """Output of a process; reading it fails once it is broken."""

    def __init__(self, text: bytes = b"", broken: bool = False) -> None:
        self.text = text
        self.broken = broken

    def since(self, position: int) -> tuple[int, bytes, float]:
        if self.broken:
            raise ZeroDivisionError("broken")
        return len(self.text), self.text[position:], time.monotonic()


def worker_with(output: Output, **environ: str) -> Worker:
    """A worker with this output, whose process is that of the tests."""
    spec = WorkerSpec("rank 0", (), "", environ, "", 0)
    return cast(
        Worker, SimpleNamespace(spec=spec, pid=os.getpid(), exit=None, output=output, started_ranks=[])
    )


@contextmanager
def sampled(output: Output, journal: EventLog, interval: float = 0.01, **environ: str) -> Iterator[None]:
    """Samples a process with this output in a thread."""
    cancel = threading.Event()
    sampler = Sampler(
        Sampling(interval),
        [worker_with(output, **environ)],
        time.monotonic(),
        read=OutputReader((), journal.warn).subscribe(),
        journal=journal,
    )
    thread = threading.Thread(target=sampler.run, args=(cancel,))
    thread.start()
    yield
    cancel.set()
    thread.join(10)
    assert not thread.is_alive()


def steps(journal: EventLog) -> list[Any]:
    """Returns the steps in the events."""
    return [event["ranks"]["step"] for event in journal.events("metrics") if "step" in event["ranks"]]


@pytest.mark.invariant("Metrics delay no start and never end a training")
def test_failed_samples_are_dropped_and_reported_once(journal: EventLog) -> None:
    output = Output(broken=True)
    with sampled(output, journal):
        eventually(journal.screen, "the first one")
        output.broken = False
        eventually(lambda: journal.events("metrics"), "a further sample")
        output.broken = True
    assert (
        journal.screen()
        == "[ma_boot] warning: a sample of the metrics is dropped: ZeroDivisionError: broken\n"
    )


@pytest.mark.parametrize("tool", ["sleep 60", "exec yes '| 0 |'"], ids=["hangs", "without end"])
def test_a_hanging_card_tool_delays_no_other_samples(tmp_path: Path, journal: EventLog, tool: str) -> None:
    (tmp_path / "npu-smi").write_text(f"#!/bin/sh\n{tool}\n")
    (tmp_path / "npu-smi").chmod(0o755)
    with sampled(Output(), journal, 0.1, PATH=f"{tmp_path}:{os.environ['PATH']}"):
        eventually(lambda: len(journal.events("metrics")) > 3, "samples", seconds=5)


def test_the_last_lines_are_read_when_it_is_cancelled(journal: EventLog) -> None:
    output = Output()
    with sampled(output, journal):
        eventually(lambda: journal.events("metrics"), "a sample")
        output.text = b"epoch: 1 step: 7, loss is 0.5\n"
    assert steps(journal) == [[7]]


def test_a_sample_that_hangs_delays_the_end_by_half_a_second_at_most(
    inbox: SignalInbox, journal: EventLog
) -> None:
    """A network disk that does not answer blocks the thread forever."""
    reading, forever = threading.Event(), threading.Event()

    class HangingOutput(Output):
        def since(self, position: int) -> tuple[int, bytes, float]:
            reading.set()
            forever.wait(60)
            return super().since(position)

    with closing(
        Metrics(Sampling(0.01), inbox, journal, read=OutputReader((), journal.warn).subscribe())
    ) as metrics:
        eventually(lambda: metrics.patience() == 0, "the first interval is over")
        metrics.check([worker_with(HangingOutput())], False)
        assert reading.wait(30)
        began = time.monotonic()
    assert 0.5 <= FINISH_SECONDS <= time.monotonic() - began < FINISH_SECONDS + 1
    forever.set()


def test_no_thread_starts_before_the_first_interval(inbox: SignalInbox, journal: EventLog) -> None:
    with closing(
        Metrics(Sampling(3600.0), inbox, journal, read=OutputReader((), journal.warn).subscribe())
    ) as metrics:
        assert 3590 < metrics.patience() <= 3600
        metrics.check([], False)
        assert "metrics" not in {thread.name for thread in threading.enumerate()}
    assert Metrics(
        Sampling(), inbox, journal, read=OutputReader((), journal.warn).subscribe()
    ).patience() == float("inf")


def test_events_become_rarer_in_a_long_run() -> None:
    """Once a minute at last: ten days are 15,000 events."""
    hour = 3600.0
    assert Sampling(10.0).period(0.5 * hour) == pytest.approx(10, rel=0.02)
    assert Sampling(10.0).period(3 * hour) == pytest.approx(30, rel=0.02)
    assert Sampling(10.0).period(240 * hour) == pytest.approx(60, rel=0.02)
    assert Sampling(300.0).period(hour) == pytest.approx(300, rel=0.02)


def test_samples_of_many_processes_are_taken_less_often() -> None:
    """0.5 % of a core at most, unless shorter intervals are asked for."""
    assert Sampling(10.0).pause(0.04) == 10
    assert Sampling(10.0).pause(0.1) == pytest.approx(20)
    assert Sampling(1.0).pause(0.1) == 1


@pytest.mark.parametrize("loss", ["nan", "-inf"])
def test_a_loss_that_is_not_finite_is_reported_once(journal: EventLog, loss: str) -> None:
    output = Output(f"epoch: 1 step: 7, loss is {loss}\n".encode())
    with sampled(output, journal):
        eventually(journal.screen, "the line")
        output.text += f"epoch: 1 step: 8, loss is {loss}\n".encode()
        eventually(lambda: [8] in steps(journal), "the next step")
    assert journal.screen() == f"[ma_boot] warning: rank 0: the loss is {loss} at step 7\n"
    (event,) = journal.events("loss not finite")
    assert (event["label"], event["step"], event["loss"]) == ("rank 0", 7, loss)
