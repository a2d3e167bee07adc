"""The sampling beside the supervisor: it ends with the run, and never disturbs it."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Tuple, cast

import pytest

from ma_boot.launch import WorkerSpec
from ma_boot.observe.sampler import FINISH_SECONDS, Metrics, Sampler, Sampling
from ma_boot.processes import SignalInbox, Task
from ma_boot.supervisor import Worker
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import EventLog


class Output:
    """What a process has printed; once it is broken, asking for it fails."""

    def __init__(self) -> None:
        self.text = b""
        self.broken = False

    def since(self, position: int) -> Tuple[int, bytes, float]:
        if self.broken:
            raise ZeroDivisionError("broken")
        return len(self.text), self.text[position:], time.monotonic()

    def worker(self) -> Worker:
        """This process, as the worker that has printed it."""
        spec = WorkerSpec("rank 0", (), "", {}, "", 0)
        return cast(Worker, SimpleNamespace(spec=spec, pid=os.getpid(), exit=None, output=self))


class Sampled:
    """An output that is sampled in a thread, and what was said and written of it."""

    def __init__(self, text: bytes = b"", broken: bool = False) -> None:
        self.output = Output()
        self.output.text, self.output.broken = text, broken
        self.lines: List[str] = []
        self.events: List[Dict[str, Any]] = []
        self.cancel = threading.Event()
        workers = [self.output.worker()]
        sampler = Sampler(Sampling(0.01), workers, time.monotonic(), self.lines.append, self.event)
        self.thread = threading.Thread(target=sampler.run, args=(self.cancel,))
        self.thread.start()

    def event(self, kind: str, **fields: Any) -> None:
        self.events.append({"kind": kind, **fields})

    def steps(self) -> List[Any]:
        """The steps that were written."""
        return [event["ranks"]["step"] for event in self.events if "step" in event.get("ranks", {})]

    def end(self) -> None:
        self.cancel.set()
        self.thread.join(10)
        assert not self.thread.is_alive()


def test_a_sample_that_fails_is_dropped_said_once_and_ends_nothing() -> None:
    sampled = Sampled(broken=True)
    eventually(lambda: sampled.lines, "the first one")
    sampled.output.broken = False
    eventually(lambda: sampled.events, "a further sample")
    sampled.output.broken = True
    sampled.end()
    assert sampled.lines == ["a sample of the metrics is dropped: ZeroDivisionError: broken"]


@pytest.mark.parametrize("tool", ["sleep 60", "exec yes '| 0 |'"], ids=["hangs", "without end"])
def test_a_tool_of_cards_costs_its_own_samples_only(tmp_path: Path, tool: str) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{tool}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    spec = WorkerSpec("rank 0", (), "", {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, "", 0)
    worker = cast(Worker, SimpleNamespace(spec=spec, pid=os.getpid(), exit=None, output=Output()))
    events: List[float] = []
    cancel, began = threading.Event(), time.monotonic()
    sampler = Sampler(
        Sampling(0.1), [worker], began, print, lambda kind, **fields: events.append(time.monotonic() - began)
    )
    thread = threading.Thread(target=sampler.run, args=(cancel,))
    thread.start()
    eventually(lambda: len(events) > 3, "samples")
    assert events[3] < 5
    cancel.set()
    thread.join(10)
    assert not thread.is_alive()


def test_the_last_lines_are_read_when_it_is_cancelled() -> None:
    sampled = Sampled()
    eventually(lambda: sampled.events, "a sample")
    sampled.output.text = b"epoch: 1 step: 7, loss is 0.5\n"
    sampled.end()
    assert sampled.steps() == [[7]]


def test_a_sample_that_hangs_delays_the_end_by_half_a_second_at_most(journal: EventLog) -> None:
    """A network disk that does not answer holds the thread forever."""
    forever = threading.Event()
    with SignalInbox() as inbox:
        with closing(Metrics(Sampling(1.0), inbox, journal)) as task:
            task._task = Task("hanging", lambda cancel: print(forever.wait(60)), inbox)
            began = time.monotonic()
        assert 0.5 <= FINISH_SECONDS <= time.monotonic() - began < FINISH_SECONDS + 1
    forever.set()


def test_nothing_starts_before_the_first_interval(journal: EventLog) -> None:
    with SignalInbox() as inbox, closing(Metrics(Sampling(3600.0), inbox, journal)) as task:
        assert 3590 < task.patience() <= 3600
        task.check([], False)
        assert task._task is None
    with SignalInbox() as inbox, closing(Metrics(Sampling(), inbox, journal)) as task:
        assert task.patience() == float("inf")


def test_the_period_of_events_grows_with_the_run() -> None:
    """Once a minute at last: ten days are 15,000 events."""
    sampler = Sampler(Sampling(10.0), [], 0.0, print, print)
    hour = 3600.0
    assert sampler._period(0.5 * hour) == pytest.approx(10, rel=0.02)
    assert sampler._period(3 * hour) == pytest.approx(30, rel=0.02)
    assert sampler._period(240 * hour) == pytest.approx(60, rel=0.02)
    assert Sampler(Sampling(300.0), [], 0.0, print, print)._period(hour) == pytest.approx(300, rel=0.02)


def test_samples_of_many_processes_are_taken_less_often() -> None:
    """0.5 % of a core at most, unless shorter intervals are asked for."""
    assert Sampler(Sampling(10.0), [], 0.0, print, print)._pause(0.04) == 10
    assert Sampler(Sampling(10.0), [], 0.0, print, print)._pause(0.1) == pytest.approx(20)
    assert Sampler(Sampling(1.0), [], 0.0, print, print)._pause(0.1) == 1


@pytest.mark.parametrize("loss", ["nan", "-inf"])
def test_a_loss_that_is_no_number_is_said_once(loss: str) -> None:
    sampled = Sampled(f"epoch: 1 step: 7, loss is {loss}\n".encode())
    eventually(lambda: sampled.lines, "the line")
    sampled.output.text += f"epoch: 1 step: 8, loss is {loss}\n".encode()
    eventually(lambda: [8] in sampled.steps(), "the next step")
    sampled.end()
    assert sampled.lines == [f"rank 0: the loss is {loss} at step 7"]
    found = [event for event in sampled.events if event["kind"] == "loss not finite"]
    assert found == [{"kind": "loss not finite", "label": "rank 0", "step": 7, "loss": loss}]
