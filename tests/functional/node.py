"""One node of a job for tests: the platform's directories and variables in a temporary directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from ma_boot.platform.rank_table import fake

PROGRAMS = Path(__file__).parent / "programs"
RANK = str(PROGRAMS / "rank.py")
# Maximum wait for a condition or for the end of ma_boot, on a busy machine.
DEADLINE_SECONDS = 60.0


def eventually(condition: Callable[[], Any], what: str, seconds: float = DEADLINE_SECONDS) -> Any:
    """Returns the condition's value once it is true; fails the test after `seconds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds:.0f} s: {what}")


def alive(pid: int) -> bool:
    """Returns True if the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def events_in(file: Path) -> list[dict[str, Any]]:
    """Returns the events of a growing file; an incomplete last line is ignored."""
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]


@dataclass
class Node:
    """A job's container with `devices` cards; the directory `obs` stands in for OBS.

    Leftovers of an earlier start are found by the name of the container, so each test has names of its own.
    """

    root: Path
    devices: int = 2
    variables: dict[str, str] = field(default_factory=dict)
    index: int = 0
    task: str = field(default_factory=lambda: f"{uuid.uuid4()}-worker")

    def __post_init__(self) -> None:
        self.home = self.root / "home"
        self.log_dir = self.home / "modelarts" / "log"
        self.config = self.root / "user-config"
        self.obs = self.root / "obs"
        for directory in (self.home, self.config, self.obs):
            directory.mkdir(parents=True, exist_ok=True)

    @property
    def table(self) -> Path:
        """Path of the rank table that the platform writes."""
        return self.config / "jobstart_hccl.json"

    @property
    def instance(self) -> str:
        """The name of this container, as the platform has it in its variables."""
        return f"modelarts-job-test-{self.task}-{self.index}"

    def environ(self) -> dict[str, str]:
        """Returns the variables that the platform sets, without those of the developer's shell."""
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "MA_HOME": str(self.home),
            "MA_VJ_NAME": "ma-job-test",
            "MA_NUM_GPUS": str(self.devices),
            "MA_CURRENT_INSTANCE_NAME": self.instance,
            "RANK_TABLE_FILE": str(self.config),
            **self.variables,
        }

    def complete_table(self, pods: int = 1) -> None:
        """Writes the completed table of `pods` nodes, of which this is the first."""
        names = f"ma-job-test-{self.task}-{{}}"
        self.table.write_text(json.dumps(template_two(pods, self.devices, names)))

    def start(self, *arguments: str) -> Booting:
        """Starts `ma_boot` with these arguments, as the platform does: in the home, without a shell."""
        return self.start_by([], *arguments)

    def start_by(self, prefix: Sequence[str], *arguments: str) -> Booting:
        """`start` by a program that changes something first and then runs its arguments."""
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "ma_boot", *arguments],
            cwd=self.home,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return Booting(self, process)

    def boot(self, *arguments: str) -> Ended:
        """Runs `ma_boot` to its end."""
        return self.start(*arguments).end()

    def mapping(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> list[str]:
        """The options for a mapping, with the directory that stands in for OBS."""
        file = self.root / "path_mapping_config.py"
        file.write_text(f"PATH_MAPPING_CONFIG = { ({'input': inputs, 'output': outputs})!r}\n")
        return ["--path-mapping", str(file), "--obs-root", str(self.obs)]

    def logs(self) -> dict[str, bytes]:
        """The log files by name."""
        return {file.name: file.read_bytes() for file in self.log_dir.glob("*") if file.is_file()}

    def events(self) -> list[dict[str, Any]]:
        """The events of all runs so far."""
        file = self.log_dir / "modelarts-job-test-node-0-events.jsonl"
        return events_in(file) if file.exists() else []

    def in_phase(self, name: str) -> bool | None:
        """True while the phase runs."""
        marks = [e["kind"] for e in self.events() if e.get("phase") == name]
        return bool(marks) and marks[-1] == "phase-start"


@dataclass
class Ended:
    """Exit code and output of a run."""

    code: int
    output: str


@dataclass
class Booting:
    """A running `ma_boot`."""

    node: Node
    process: subprocess.Popen[bytes]
    read: bytes = b""

    def until(self, text: str) -> None:
        """Reads standard output until a line contains the text, or the test times out."""
        assert self.process.stdout is not None
        while text.encode() not in self.read:
            line = self.process.stdout.readline()
            assert line, f"ended without {text!r}"
            self.read += line

    def signal(self, signum: int = signal.SIGTERM) -> None:
        """Sends a signal to ma_boot alone."""
        os.kill(self.process.pid, signum)

    def end(self) -> Ended:
        """Waits for the end; fails the test after `DEADLINE_SECONDS`."""
        try:
            output, _ = self.process.communicate(timeout=DEADLINE_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            raise AssertionError(
                f"ma_boot did not end; its output:\n{(error.output or b'').decode()}"
            ) from error
        return Ended(self.process.returncode, (self.read + output).decode("utf-8", "replace"))


def template_two(pods: int, devices: int, names: str = "ma-job-test-worker-{}") -> dict[str, Any]:
    """A completed table as ModelArts writes it."""
    return fake(pods, devices, names.format, lambda pod: f"10.0.0.{pod + 1}")


def pids(directory: Path, pattern: str, count: int) -> Sequence[int]:
    """Returns the process ids that the ranks wrote with `ready:`, once all have written theirs."""
    files = eventually(
        lambda: (
            (written := sorted(directory.glob(pattern)))
            and len(written) >= count
            and all(file.read_text() for file in written)
            and written
        ),
        f"{count} files {pattern}",
    )
    return [int(file.read_text()) for file in files]
