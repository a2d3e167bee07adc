"""Journal of a node: console lines and events, both for each phase with its duration."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ma_boot.errors import CannotCreate, PhaseCancelled, Stopped, described
from ma_boot.redact import masked
from ma_boot.report.console import Console
from ma_boot.report.log_writer import LogFile, LogWriter
from ma_boot.wording import ProgressLine, WarningLine, coded, duration, marked

# Phases whose success is printed as a result, on the first node only, as all nodes do the same.
MILESTONES = ("environment", "inputs", "rank table", "launch")
# A byte of a path that is not UTF-8 is a lone surrogate in Python, and becomes JSON's \\udcXX.
NOT_UTF8 = "backslashreplace"


class RunningPhase:
    """A running phase; its code sets `detail` (the result in words) and `outcome` (`done`, `failed`,
    `stopped`) for the line at its end.
    """

    def __init__(self) -> None:
        self.outcome = "done"
        self.detail = ""


class Journal:
    """Prints lines on the console, and writes events to a file as soon as its path is known.

    Events have the wall clock for people and the monotonic clock (nanoseconds) for durations. An event file
    that can no longer be written does not end a training: it is reported once. `logs` writes it, and the
    other logs of the node, in the background.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._waiting: list[dict[str, Any]] = []
        self.logs = LogWriter()
        self._file: LogFile | None = None
        self._node: int | None = None
        # Seconds of the phases that have ended, by name.
        self.seconds_of: dict[str, float] = {}
        # The event file.
        self.path: Path | None = None

    def open(self, path: Path, node: int | None) -> None:
        """Appends events to this file from now on, beginning with those so far.

        `node` is None for events of the whole job.

        Raises:
            CannotCreate: The file cannot be created or written to.
        """
        self._node = node
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab", buffering=0)
        except OSError as error:
            raise CannotCreate(
                f"cannot write to the log directory: {path}: {error.strerror}; MA_LOG_DIR names it, and "
                f"uid {os.geteuid()} must be able to enter and write it: in the image, no such directory or "
                "`RUN chown -R 1000:100 DIR`, and no ENV MA_LOG_DIR"
            ) from error
        self._file = LogFile(file, lambda reason: self.warn(f"events are no longer written: {reason}"))
        for entry in self._waiting:
            self._write(entry)
        self._waiting.clear()

    def close(self) -> None:
        """Writes what is left and closes the event file; later events are dropped."""
        file, self._file = self._file, None
        if file is not None:
            self.logs.close(file)
        self.logs.flush()

    def say(self, text: str) -> None:
        """Prints a message of ma_boot, each of its lines with the prefix `[ma_boot] `.

        The message is a result, unless it is a `WarningLine` or a `ProgressLine`. What it quotes of the
        training's output moves no cursor and changes no colour.
        """
        self.console.line(marked(text), "[ma_boot] ")

    def warn(self, text: str) -> None:
        """Prints a message as a warning, unless it is a `ProgressLine`."""
        self.say(text if isinstance(text, ProgressLine) else WarningLine(text))

    def event(self, kind: str, **fields: Any) -> None:
        """Records an event with these fields, which must be JSON values; secrets in them are masked."""
        entry = {"time": time.time(), "monotonic_ns": time.monotonic_ns(), "kind": kind, **fields}
        if self.path is None:
            self._waiting.append(entry)
        else:
            self._write(entry)

    def _write(self, entry: dict[str, Any]) -> None:
        file = self._file
        if file is None:
            return
        try:
            line = json.dumps(coded(masked({**entry, "node": self._node})), ensure_ascii=False) + "\n"
            self.logs.append(file, line.encode("utf-8", NOT_UTF8))
        # No event is worth a training.
        except Exception as error:
            self._file = None
            self.warn(f"events are no longer written: {described(error)}")

    @contextmanager
    def best_effort(self, what: str) -> Iterator[None]:
        """Logs and suppresses exceptions of the block; `what` names the feature that is skipped.

        For everything that is no part of the training's result: advice, measurements, the report.
        """
        try:
            yield
        except Exception as error:
            self.warn(f"{what}: {described(error)}")

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
            seconds, outcome, detail = time.monotonic() - started, phase.outcome, phase.detail
            self.seconds_of[name] = self.seconds_of.get(name, 0.0) + seconds
            self.event("phase-end", phase=name, seconds=seconds, outcome=outcome, detail=detail)
            line = f"{name}: {outcome} in {duration(seconds)}" + (f": {detail}" if detail else "")
            is_result = outcome == "failed" or (name in MILESTONES and self._node in (0, None))
            self.say(line if is_result else ProgressLine(line))
