"""Fails when a start, a stop, a transfer or a table costs more than the budget says.

    python benchmarks/guard.py            (make guard; CI)
    python benchmarks/guard.py --write    takes what is measured as the budget

Nothing here depends on how busy the machine is. CPU seconds are divided by those of a fixed program that runs
before and after, as a virtual machine is faster and slower, by a half, within a second; the median of several
runs counts. System calls (by strace) are those that name a file or start a process. Modules are counted by
the interpreter. `budget.json` has a row for each.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Callable

from guarded import BARE, KEYS, ROWS, Row, Run, calibration, make_files
from launchers import PATH

BUDGET = Path(__file__).with_name("budget.json")
MARGINS = {"cpu": 1.3, "calls": 1.05, "modules": 1.015}
ROUNDS = 3
RUNS_OF_CHEAP = 3  # in a round
# ext4 takes several times the CPU for new files while the inodes of removed ones wait to be used again.
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
Figures = Mapping[str, Mapping[str, float]]  # by row and by kind, as in MARGINS
CALLS = "%file,fork,vfork,fsync,fdatasync"
# Other processes, what buffers and locks ask, and the record of a transfer, which is saved by the clock.
CHANCE = re.compile(r'"/proc/\d|fstatat\d*\(\d+, ""|\.ma_sync|^[^(]*$')
CHANGES = re.compile(r"O_CREAT|^\d+ +(rename|unlink|link|mkdir|symlink|fsync|fdatasync|execve|vfork)")


def run_once(row: Callable[[Run], float], endpoint: str, **how: object) -> float:
    """One run in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="guard-", dir=SCRATCH) as name:
        variables = {"PATH": PATH, "HOME": name, "LANG": "C.UTF-8"}
        return row(Run(Path(name), endpoint, variables=variables, **how))  # type: ignore[arg-type]


def cpu_units(rows: Sequence[Row], endpoint: str, rounds: int) -> dict[str, float]:
    """The median CPU seconds of each row, in units of the calibration beside it."""
    units: dict[str, list[float]] = {row.name: [] for row in rows}
    for number in range(rounds + 1):
        for row in rows:
            before = run_once(calibration, endpoint)
            for _ in range(RUNS_OF_CHEAP if number and row.cheap else 1):
                used, after = run_once(row.once, endpoint), run_once(calibration, endpoint)
                if number:  # the first round fills the caches
                    units[row.name].append(2 * used / (before + after))
                before = after
    return {name: statistics.median(times) for name, times in units.items()}


def modules(row: Row, endpoint: str, log: Path) -> set[str]:
    """The modules that the program loads, its worker processes included."""
    run_once(row.once, endpoint, options=["-X", "importtime"], stderr=log)
    return set(re.findall(r"^import time: +\d.*\| +([\w.]+)$", log.read_text(), re.MULTILINE))


def calls(row: Row, endpoint: str, log: Path) -> int:
    """How many system calls it makes, with its children, of those that do not depend on the machine's load.

    Of transfers these are the changes of the disk: how often its threads look at a directory is chance. The
    guard against orphans is left out: it is killed at the end, however far it has come.
    """
    quiet = ["-qq", "-s", "400", "-e", "signal=none", "-o", str(log)]
    run_once(row.once, endpoint, wrapper=["strace", "-f", "--seccomp-bpf", "-e", f"trace={CALLS}", *quiet])
    lines = [line for line in log.read_text(errors="replace").splitlines() if "resumed>" not in line]
    killed = {line.split()[0] for line in lines if "orphan_guard.py" in line and "execve(" in line}
    ours = (line for line in lines if line.split()[0] not in killed and not CHANCE.search(line))
    return sum(1 for line in ours if row.cheap or CHANGES.search(line))


def measured(rows: Sequence[Row], endpoint: str, scratch: Path, rounds: int) -> dict[str, dict[str, float]]:
    """The rows with all their figures, without what Python does by itself in this environment."""
    figures: dict[str, dict[str, float]] = {row.name: {} for row in rows}
    counts_calls = shutil.which("strace") is not None
    bare_calls = calls(BARE, endpoint, scratch / "calls") if counts_calls else 0
    bare_modules = modules(BARE, endpoint, scratch / "modules")
    for row in rows:
        run_once(row.once, endpoint)  # writes the byte code, which a fresh environment does not have yet
        if counts_calls:
            all_calls = calls(row, endpoint, scratch / "calls")
            figures[row.name]["calls"] = all_calls - (bare_calls if row.cheap else 0)
        figures[row.name]["modules"] = len(modules(row, endpoint, scratch / "modules") - bare_modules)
    for name, used in cpu_units(rows, endpoint, rounds).items():
        figures[name]["cpu"] = round(used, 3)
    return figures


def allowed(budget: Figures, name: str, what: str) -> float:
    """The most that a figure may be; 0 where there is no budget."""
    return budget.get(name, {}).get(what, 0.0) * MARGINS[what]


def grown(measurements: Figures, budget: Figures, comparable: Collection[str] = MARGINS) -> list[str]:
    """A line for each figure of these kinds that is above its budget and the margin."""
    return [
        f"{name}: {what} {figure:g}, at most {allowed(budget, name, what):.4g}"
        for name, figures in measurements.items()
        for what, figure in figures.items()
        if what in comparable and figure > allowed(budget, name, what)
    ]


def table(measurements: Figures, budget: Figures) -> str:
    """What was measured, beside what is allowed."""
    lines = [f"{'':12}" + "".join(f"{what:>24}" for what in MARGINS)]
    for name, figures in measurements.items():
        cells = [
            f"{figures[what]:g} ({allowed(budget, name, what):.4g})" for what in MARGINS if what in figures
        ]
        lines.append(f"{name:12}" + "".join(f"{cell:>24}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    """Measures, prints, and judges."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="take what is measured as the budget")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of the CPU seconds ({ROUNDS})")
    parser.add_argument("--rows", default=",".join(row.name for row in ROWS), help="some of the rows only")
    options = parser.parse_args()
    rows = [row for row in ROWS if row.name in options.rows.split(",")]
    if shutil.which("strace") is None and os.environ.get("CI"):
        sys.exit("guard: strace is not installed (Debian: strace)")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    budget = json.loads(BUDGET.read_text()) if BUDGET.exists() else {}
    limits = budget.get("rows", {})
    # Another Python has other modules, and makes other calls itself.
    comparable: Collection[str] = MARGINS if here == budget.get("python") else {"cpu"}
    with ExitStack() as made:
        name, store = (
            made.enter_context(tempfile.TemporaryDirectory(prefix="guard-", dir=SCRATCH)) for _ in range(2)
        )
        make_files(Path(store, "bucket", "in"))
        port = free_port()
        argv = [sys.executable, "-m", "ma_boot.desk.rehearsal.obs_server", store, str(port)]
        with subprocess.Popen(argv, env={**os.environ, **KEYS}, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            server.stdout.readline()
            try:
                measure = partial(
                    measured, endpoint=f"http://127.0.0.1:{port}", scratch=Path(name), rounds=options.rounds
                )
                figures = measure(rows)
                if not options.write:  # a change that costs more costs more again
                    high = [row for row in rows if grown({row.name: figures[row.name]}, limits, comparable)]
                    figures.update(measure(high))
            finally:
                server.terminate()
    print(table(figures, limits))
    if options.write:
        document = {"python": here, "rows": {**limits, **figures}}
        BUDGET.write_text(json.dumps(document, indent=1) + "\n")
        return
    if comparable is not MARGINS:
        print(f"the budget is of Python {budget.get('python')}: only the CPU seconds are compared")
    if problems := grown(figures, limits, comparable):
        sys.exit("\n".join(["guard: these cost more than benchmarks/budget.json allows:", *problems]))


def free_port() -> int:
    """A port that nobody listens at."""
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
