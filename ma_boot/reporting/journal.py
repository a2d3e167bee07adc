"""The journal of a node: a line on the console and an event for each phase, with its duration."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, TextIO

from ma_boot.errors import CannotCreate, PhaseCancelled, Stopped, described
from ma_boot.redact import masked
from ma_boot.reporting.console import Console

NOT_UTF8 = "backslashreplace"  # what a path has in place of a byte that is not UTF-8 becomes JSON's \\udcXX


class PhaseRecord(NamedTuple):
    """A phase that has ended: `outcome` is `done`, `failed` or `stopped`, `detail` its result in words."""

    name: str
    seconds: float
    outcome: str
    detail: str


class RunningPhase:
    """A phase that goes on; the code in it sets `outcome` and `detail` for the line at its end."""

    def __init__(self) -> None:
        self.outcome = "done"
        self.detail = ""


class Journal:
    """Prints lines on the console, and writes events to a file as soon as its path is known.

    Events have the wall clock for people and the monotonic clock (nanoseconds) for durations. An event file
    that can no longer be written does not end a training: it is reported once.
    """

    def __init__(self, console: Console) -> None:
        self.phases: List[PhaseRecord] = []
        self.console = console
        self._waiting: List[Dict[str, Any]] = []
        self._file: Optional[TextIO] = None
        self._node: Optional[int] = None
        self._opened = False
        self._writing = threading.Lock()  # transfers write events from threads of their own

    def open(self, path: Path, node: Optional[int]) -> None:
        """Appends events to this file from now on, beginning with those so far.

        `node` is None for events of the whole job.

        Raises:
            CannotCreate: The file cannot be created or written to.
        """
        self._node = node
        self._opened = True
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8", errors=NOT_UTF8, buffering=1)
        except OSError as error:
            raise CannotCreate(
                f"cannot write to the log directory: {path}: {error.strerror}; MA_LOG_DIR names it, and "
                f"uid {os.geteuid()} must be able to enter and write it: in the image, no such directory or "
                "`RUN chown -R 1000:100 DIR`, and no ENV MA_LOG_DIR"
            ) from error
        for entry in self._waiting:
            self._write(entry)
        self._waiting.clear()

    def close(self) -> None:
        """Closes the event file; later events are dropped."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def say(self, text: str) -> None:
        """Prints a message of ma_boot, each of its lines with the prefix `[ma_boot] `."""
        self.console.line("[ma_boot] " + text.replace("\n", "\n[ma_boot] "))

    def event(self, kind: str, **fields: Any) -> None:
        """Records an event with these fields, which must be JSON values; secrets in them are masked."""
        entry = {"time": time.time(), "monotonic_ns": time.monotonic_ns(), "kind": kind, **fields}
        if not self._opened:
            self._waiting.append(entry)
        else:
            self._write(entry)

    def _write(self, entry: Dict[str, Any]) -> None:
        with self._writing:
            if self._file is None:
                return
            try:
                self._file.write(json.dumps(masked({**entry, "node": self._node}), ensure_ascii=False) + "\n")
            except Exception as error:  # no event is worth a training
                broken, self._file = self._file, None
                with suppress(OSError):  # what it still holds, it cannot write now either
                    broken.close()
                why = error.strerror if isinstance(error, OSError) else described(error)
                self.say(f"events are no longer written: {why}")

    @contextmanager
    def only_helps(self, what: str) -> Iterator[None]:
        """What the block raises is said, with `what` goes without it, and has no other effect."""
        try:
            yield
        except Exception as error:
            self.say(f"{what}: {described(error)}")

    @contextmanager
    def phase(self, name: str) -> Iterator[RunningPhase]:
        """Times a phase; its end is printed and recorded however it ends."""
        phase, started = RunningPhase(), time.monotonic()
        self.event("phase-start", phase=name)
        try:
            yield phase
        except BaseException as error:
            ended_early = isinstance(error, (Stopped, PhaseCancelled))
            phase.outcome = "stopped" if ended_early else "failed"
            phase.detail = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
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
