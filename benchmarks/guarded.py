"""What `guard.py` measures: programs of ma_boot, each as one run in a directory of its own."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from launchers import COUNT, environ

from ma_boot.platform.rank_table import fake

FILES = 2000
FILE_BYTES = 4096
SERVERS = 2048  # of eight cards
DEADLINE_SECONDS = 60.0
KEYS = {"OBS_ACCESS_KEY_ID": "GUARD", "OBS_SECRET_ACCESS_KEY": "GUARDSECRET"}

# As much of what an interpreter does at a start, with text, and with files, as takes a tenth of a second.
CALIBRATION = """
import dataclasses, email.message, json, os, re
text = json.dumps({str(number): [number, str(number)] for number in range(2000)}, indent=1)
for _ in range(6):
    json.loads(text)
    sorted(re.findall(r"[0-9]+", text))
    exec(compile("def f(a, b=1):\\n    return [a, b]\\n" * 150, "calibration", "exec"))
    for name in os.listdir("/usr/bin")[:150]:
        os.stat("/usr/bin/" + name)
"""
# Writes the CPU seconds of this process: all, and after the first SIGTERM.
MEASURED = """
import signal, sys, time
from ma_boot.processes.signals import SignalInbox
record, told = SignalInbox._record, []
def recorded(inbox, signum, frame):
    if signum == signal.SIGTERM:
        told.append(time.process_time())
    record(inbox, signum, frame)
SignalInbox._record = recorded
from ma_boot.cli.app import main
target = sys.argv.pop(1)
code = main()
used = time.process_time()
with open(target, "w") as file:
    file.write(str(used - told[0] if told else used))
sys.exit(code)
"""


@dataclass
class Run:
    """One run: its directory, and what stands before the program's own arguments."""

    directory: Path
    endpoint: str
    wrapper: Sequence[str] = ()
    options: Sequence[str] = ()
    stderr: Path | None = None
    variables: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts Python with these arguments."""
        argv = [*self.wrapper, sys.executable, *self.options, *arguments]
        errors = self.stderr.open("wb") if self.stderr else None
        with self.directory.joinpath("output").open("wb") as output:
            process = subprocess.Popen(
                argv, cwd=self.directory, env=self.variables, stdin=subprocess.DEVNULL,
                stdout=output, stderr=errors or subprocess.STDOUT,
            )  # fmt: skip
        if errors is not None:
            errors.close()
        return process

    def cpu(self, *arguments: str) -> float:
        """The CPU seconds of a program and its children; exits if it fails."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.ended(self.start(*arguments), 0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def ended(self, process: subprocess.Popen[bytes], expected: int) -> None:
        """Waits for the end; exits if it is another one than expected."""
        code = process.wait(DEADLINE_SECONDS)
        if code != expected:
            output = self.directory.joinpath("output").read_text(errors="replace")
            sys.exit(f"guard: {process.args!r}: exit code {code}, not {expected}:\n{output[-3000:]}")


def calibration(run: Run) -> float:
    """The unit of all CPU seconds."""
    return run.cpu("-I", "-S", "-c", CALIBRATION)


def bare(run: Run) -> float:
    """Python alone: setuptools, where an environment has it, makes 20 calls at each start."""
    return run.cpu("-c", "pass")


def version(run: Run) -> float:
    """The cheapest command."""
    return run.cpu("-m", "ma_boot", "--version")


def help_page(run: Run) -> float:
    """The overview of all commands."""
    return run.cpu("-m", "ma_boot", "--help")


def completion(run: Run) -> float:
    """What a shell asks for a word."""
    run.variables.update(_MA_BOOT_COMPLETE="bash_complete", COMP_WORDS="ma_boot --re", COMP_CWORD="1")
    return run.cpu("-c", "import sys; sys.argv[0] = 'ma_boot'; from ma_boot.__main__ import run; run()")


def start(run: Run) -> float:
    """A job of eight ranks that do nothing, from its start to its end; without the ranks."""
    run.variables = environ(run.directory)
    cost = run.directory / "cost"
    run.ended(run.start("-c", MEASURED, str(cost), "--", "/bin/true"), 0)
    return float(cost.read_text())


def stop(run: Run) -> float:
    """From SIGTERM to the end of a job, page and report included; without the ranks."""
    run.variables = environ(run.directory)
    cost = run.directory / "cost"
    rank = [
        "bash",
        "-c",
        f"echo $$ > {run.directory}/pid.$RANK_ID; echo >> {run.directory}/ready; exec sleep 99",
    ]
    process = run.start("-c", MEASURED, str(cost), "--", *rank)
    until = time.monotonic() + DEADLINE_SECONDS
    ready = run.directory / "ready"
    while not ready.exists() or ready.stat().st_size < COUNT:
        if time.monotonic() > until or process.poll() is not None:
            sys.exit("guard: the ranks did not start")
        time.sleep(0.01)
    os.kill(_program(process, run), signal.SIGTERM)
    run.ended(process, 128 + signal.SIGTERM)
    return float(cost.read_text())


def _program(process: subprocess.Popen[bytes], run: Run) -> int:
    """The pid of ma_boot, which is a child of strace's."""
    if not run.wrapper:
        return process.pid
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def download(run: Run) -> float:
    """2,000 small files from OBS."""
    return run.cpu("-m", "ma_boot", "sync", "download", _mapping(run, "in", "input"))


def upload(run: Run) -> float:
    """2,000 small files to OBS."""
    make_files(run.directory / "out")
    return run.cpu("-m", "ma_boot", "sync", "upload", _mapping(run, f"up/{run.directory.name}", "output"))


def listing(run: Run) -> float:
    """What would be done with 2,000 objects."""
    return run.cpu("-m", "ma_boot", "sync", "plan", "--json", _mapping(run, "in", "input"))


def rank_table(run: Run) -> float:
    """The conversion of a large table."""
    (run.directory / "table.json").write_text(json.dumps(fake(SERVERS, 8)))
    return run.cpu("-m", "ma_boot", "rank-table", "convert", "table.json", "-o", "one.json")


def _mapping(run: Run, key: str, section: str) -> str:
    run.variables.update(KEYS, OBS_ENDPOINT=run.endpoint)
    (run.directory / "mapping.json").write_text(json.dumps({section: {"out": f"obs://bucket/{key}/"}}))
    return "mapping.json"


def make_files(directory: Path) -> None:
    """The files that are moved, each with another content."""
    for number in range(FILES):
        path = directory / f"{number // 100:02}" / f"{number:04}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(number.to_bytes(4, "big") * (FILE_BYTES // 4))


@dataclass
class Row:
    """A measurement: `once` makes one run in a new directory, and returns its CPU seconds.

    It starts the program by `Run.start`, by which calls and modules are counted in further runs.
    """

    name: str
    once: Callable[[Run], float]
    cheap: bool = True


BARE = Row("Python", bare)
ROWS = [
    Row(once.__name__.replace("_", " "), once, once not in (download, upload))
    for once in (version, help_page, completion, start, stop, download, upload, listing, rank_table)
]
