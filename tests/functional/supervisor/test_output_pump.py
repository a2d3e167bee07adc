"""All outputs together: the first of each, the console's pace, and the platform's limit."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ma_boot.node.supervisor import output
from ma_boot.node.supervisor.output import OutputPump, WorkerOutput
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import QUEUE_BYTES, Console
from ma_boot.report.journal import Journal
from tests.functional.node import eventually
from tests.functional.supervisor.conftest import EventLog, shell


@dataclass
class Ranks:
    """The pipes of two ranks."""

    pump: OutputPump
    sinks: list[int]

    def print(self, rank: int, text: str) -> None:
        """Prints as a rank, and pumps."""
        os.write(self.sinks[rank], text.encode())
        self.pump.pump()


@pytest.fixture
def ranks(tmp_path: Path, inbox: SignalInbox, journal: EventLog) -> Iterator[Ranks]:
    with ExitStack() as stack:
        pump = stack.enter_context(OutputPump(journal, inbox, quiet_bytes=500, silent_bytes=1000))
        ranks = Ranks(pump, [])
        for rank in range(2):
            source, sink = os.pipe()
            output = WorkerOutput(os.fdopen(source, "rb", 0), shell(tmp_path, rank, ""), journal)
            stack.callback(output.close)
            stack.callback(os.close, sink)
            pump.add(output)
            ranks.sinks.append(sink)
        yield ranks


def test_pump_pauses_after_each_read(ranks: Ranks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PAUSE_SECONDS", 1.0)  # a busy machine would be late for 2 ms
    assert ranks.pump.pause() == 0
    ranks.print(0, "a line\n")
    assert 0 < ranks.pump.pause() <= 1.0
    eventually(lambda: ranks.pump.pause() == 0, "the moment is over")


def test_near_the_platforms_limit_only_log_files_are_written(
    ranks: Ranks, journal: EventLog, tmp_path: Path
) -> None:
    for number in range(100):
        for rank in range(2):
            ranks.print(rank, f"line {number}\n")
    lines = [line for line in journal.screen().splitlines() if line.startswith("[ma_boot]")]
    assert ["all processes but the first" in line for line in lines] == [True, False]
    shown = {rank: journal.screen().count(f"[rank {rank}] line") for rank in range(2)}
    assert 0 < shown[1] < shown[0] - 10 < 80
    journal.logs.flush()
    assert [len((tmp_path / f"rank_{rank}.txt").read_text().splitlines()) for rank in range(2)] == [100, 100]


def test_limit_is_logged_in_mebibytes(tmp_path: Path, inbox: SignalInbox, journal: EventLog) -> None:
    with OutputPump(journal, inbox, quiet_bytes=1 << 20, silent_bytes=1 << 30) as pump:
        journal.console.write(b"x" * (1 << 20) + b"\n")
        pump.pump()
    assert "[ma_boot] 1 MiB of output: " in journal.screen()


def test_output_is_not_read_while_the_console_is_full(inbox: SignalInbox) -> None:
    reader, writer = os.pipe()
    console = Console(writer, patience=600)
    with OutputPump(Journal(console), inbox, 1 << 29, 1 << 30) as pump:
        console.write(b"x" * QUEUE_BYTES + b"\n")
        assert pump.pause() > 100
        inbox.drain()
        taken = threading.Thread(target=lambda: all(iter(lambda: os.read(reader, 1 << 20), b"")))
        taken.start()
        eventually(lambda: select.select([inbox], [], [], 0)[0], "the loop is woken")
        assert pump.pause() == 0
    os.close(writer)
    taken.join()
    os.close(reader)
