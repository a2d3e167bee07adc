"""Fixtures of the supervisor: small processes, an inbox, and a journal with readable events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Callable

import pytest

from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.node.supervisor.output import WorkerOutput
from ma_boot.node.supervisor.worker_group import WorkerGroup
from ma_boot.processes.orphan_guard import own_marker
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import Console
from ma_boot.report.journal import Journal
from tests.functional.processes.conftest import inbox as inbox


class EventLog(Journal):
    """A journal in a directory: `events` and what is on the `screen`, so far."""

    def __init__(self, directory: Path) -> None:
        self._screen = directory / "screen"
        self._events = directory / "events.jsonl"
        self._descriptor = os.open(self._screen, os.O_CREAT | os.O_WRONLY)
        super().__init__(Console(self._descriptor))
        self.open(self._events, 0)

    def close(self) -> None:
        super().close()
        self.console.flush()
        os.close(self._descriptor)

    def screen(self) -> str:
        self.console.flush()
        return self._screen.read_text()

    def events(self, kind: str) -> list[dict[str, Any]]:
        self.logs.flush()
        events = map(json.loads, self._events.read_text().splitlines())
        return [event for event in events if event["kind"] == kind]


class Pipe:
    """Output of rank 0 and the write end of its pipe."""

    def __init__(self, directory: Path) -> None:
        self.journal = EventLog(directory)
        self.log = directory / "new" / "deep" / "rank_0.txt"
        source, self.sink = os.pipe()
        spec = WorkerSpec("rank 0", (), "", {}, str(self.log), 0)
        self.output = WorkerOutput(os.fdopen(source, "rb", 0), spec, self.journal)

    def print(self, data: bytes) -> str:
        """Prints the data and returns the screen."""
        assert os.write(self.sink, data) == len(data)
        self.output.take()
        self.journal.logs.flush()
        return self.journal.screen()

    def close(self) -> None:
        """Ends the process and its output."""
        os.close(self.sink)
        self.output.close()
        self.journal.close()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[EventLog]:
    log = EventLog(tmp_path)
    yield log
    log.close()


def shell(directory: Path, rank: int, script: str) -> WorkerSpec:
    """Rank `rank`, a shell that runs the script in the directory."""
    environ = {"PATH": "/usr/bin:/bin"}
    log_file = str(directory / f"rank_{rank}.txt")
    return WorkerSpec(f"rank {rank}", ("sh", "-c", script), str(directory), environ, log_file, rank)


@contextmanager
def group_of(specs: Sequence[WorkerSpec], inbox: SignalInbox, journal: EventLog) -> Iterator[WorkerGroup]:
    """A group that started them; its workers are reaped at the end."""
    group = WorkerGroup(own_marker("test"))
    try:
        with group:
            assert group.start(specs, inbox, journal) is None
            yield group
    finally:
        for worker in group.workers:
            worker.process.wait(timeout=30)


Started = Callable[..., AbstractContextManager[WorkerGroup]]


@pytest.fixture
def started(tmp_path: Path, inbox: SignalInbox, journal: EventLog) -> Started:
    """`group_of` ranks in the test's directory: each is a script for `shell`, or a whole spec."""

    def start(*ranks: str | WorkerSpec) -> AbstractContextManager[WorkerGroup]:
        specs = [
            shell(tmp_path, at, rank) if isinstance(rank, str) else rank for at, rank in enumerate(ranks)
        ]
        return group_of(specs, inbox, journal)

    return start
