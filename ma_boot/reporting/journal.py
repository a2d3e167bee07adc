"""What a node says of itself: a line and an event for each phase, with its duration."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, TextIO

from ma_boot.errors import CannotCreate, PhaseCancelled, Stopped
from ma_boot.reporting.console import Console


@dataclass(frozen=True)
class PhaseRecord:
    """One phase that is over: `outcome` is `done`, `failed` or `stopped`, `detail` what it found."""

    name: str
    seconds: float
    outcome: str
    detail: str


class Phase:
    """A phase that runs; whoever runs it sets `outcome` and `detail` for the line that ends it."""

    def __init__(self) -> None:
        self.outcome = "done"
        self.detail = ""


class Journal:
    """Says lines on the console, and writes events to a file once it is known where that lies.

    Events carry the wall clock for people and the monotonic clock (nanoseconds) for durations. A journal
    that cannot be written any more is no reason to end a training: it is said once.
    """

    def __init__(self, console: Console) -> None:
        self.phases: List[PhaseRecord] = []
        self.console = console
        self._waiting: List[Dict[str, Any]] = []
        self._file: Optional[TextIO] = None
        self._node: Optional[int] = None
        self._opened = False
        self._writing = threading.Lock()  # transfers have threads of their own

    def open(self, path: Path, node: Optional[int]) -> None:
        """Events go to the end of this file from now on; the ones before are written first.

        `node` is None for events of the whole job. Raises `CannotCreate`.
        """
        self._node = node
        self._opened = True
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise CannotCreate(
                f"cannot write to the log directory: {path}: {error.strerror}; "
                "MA_LOG_DIR names it, and this process's user must own it"
            ) from error
        for entry in self._waiting:
            self._write(entry)
        self._waiting.clear()

    def close(self) -> None:
        """Ends the event file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def say(self, text: str) -> None:
        """Prints a line of ma_boot's own; further lines of the text are indented below it."""
        self.console.line("[ma_boot] " + text.replace("\n", "\n[ma_boot] "))

    def event(self, kind: str, **fields: Any) -> None:
        """Writes one event."""
        entry = {"time": time.time(), "monotonic_ns": time.monotonic_ns(), "kind": kind, **fields}
        if not self._opened:
            self._waiting.append(entry)
        else:
            self._write(entry)

    def _write(self, entry: Dict[str, Any]) -> None:
        line = json.dumps({**entry, "node": self._node}, ensure_ascii=False) + "\n"
        with self._writing:
            if self._file is None:
                return
            try:
                self._file.write(line)
            except OSError as error:
                self._file = None
                self.say(f"events are no longer written: {error.strerror}")

    @contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """Times a phase; its end is said and recorded however it ends."""
        phase, started = Phase(), time.monotonic()
        self.event("phase-start", phase=name)
        try:
            yield phase
        except BaseException as error:
            ended_early = isinstance(error, (Stopped, PhaseCancelled))
            phase.outcome = "stopped" if ended_early else "failed"
            phase.detail = str(error).split("\n", 1)[0].rstrip(":")
            raise
        finally:
            record = PhaseRecord(name, time.monotonic() - started, phase.outcome, phase.detail)
            self.phases.append(record)
            self.event(
                "phase-end", phase=name, seconds=record.seconds, outcome=record.outcome, detail=record.detail
            )
            self.say(
                f"{name}: {record.outcome} in {record.seconds:.1f} s"
                + (f": {phase.detail}" if phase.detail else "")
            )
