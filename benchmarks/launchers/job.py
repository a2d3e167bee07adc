"""One run of a launcher with eight ranks; nothing of it is left when it is over."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from launchers import process_tree
from launchers.peers import Launcher, environ

RANK = Path(__file__).with_name("rank.py")
READY_SECONDS = 60.0


class Unusable(Exception):
    """The launcher did not come as far as the measurement needs it to."""


class Job:
    """A launcher that runs: `process` is the launcher, `started` the time of its start (monotonic)."""

    def __init__(
        self, launcher: Launcher, directory: Path, command: Sequence[str], piped: bool = False
    ) -> None:
        """What it prints goes to a file, with `piped` its standard output to a pipe."""
        self._launcher = launcher
        self._directory = directory
        self._code: int | None = None
        self._left = 0
        self._console = directory / "console"
        argv = launcher.argv(directory, command)
        variables = environ(directory)
        with self._console.open("wb") as console:
            self.started = time.monotonic()
            self.process = subprocess.Popen(
                argv,
                cwd=directory / "home",
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else console,
                stderr=console,
            )

    @classmethod
    def of_ranks(cls, launcher: Launcher, directory: Path, mode: str, *more: str, piped: bool = False) -> Job:
        """A job of `rank.py` in this mode."""
        command = [sys.executable, "-I", "-S", str(RANK), mode, str(directory), *more]
        return cls(launcher, directory, command, piped)

    def mark(self, name: str, count: int) -> list[str]:
        """What the ranks wrote as their `name`, once `count` of them did; raises `Unusable`."""
        until = time.monotonic() + READY_SECONDS
        while len(marks := self._marks(name)) < count:
            if self.process.poll() is not None or time.monotonic() > until:
                if len(marks := self._marks(name)) >= count:
                    break
                last_line = self._console.read_text("utf-8", "replace").strip().splitlines()[-1:]
                raise Unusable(f"{len(marks)} of {count} files {name}.* came; it said: {''.join(last_line)}")
            time.sleep(0.002)
        return [file.read_text() for file in marks]

    def _marks(self, name: str) -> list[Path]:
        return [file for file in self._directory.glob(f"{name}.*") if file.suffix != ".new"]

    def end(self, within: float) -> float:
        """The time of the launcher's end (monotonic); infinite where it is not within so many seconds."""
        descriptor = os.pidfd_open(self.process.pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            over = bool(poll.poll(within * 1000))
            now = time.monotonic()
        finally:
            os.close(descriptor)
        if over:
            code = self.process.wait()
            self._code = code if code >= 0 else 128 - code
        time.sleep(0.1)  # killed processes need time to die
        self._left = sum(process_tree.alive(int(file.read_text())) for file in self._marks("ready"))
        return now if over else math.inf

    def exit_code(self, right: int) -> str:
        """Its exit code as a shell shows it, and whether that is wrong."""
        if self._code is None:
            return "none"
        return str(self._code) if self._code == right else f"{self._code}, not {right}"

    @property
    def left(self) -> int:
        """The number of ranks that outlive the launcher."""
        return 0 if self._code is None else self._left

    def end_all(self) -> None:
        """Ends the launcher and whatever there is below this process."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        process_tree.end_all()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end_all()
        if self.process.stdout is not None:
            self.process.stdout.close()
