"""Where the CPU time of a start goes, beside what its peers take.

    .bench/bin/python benchmarks/where.py [--runs N] [--print]

The least of several runs counts: another job on the machine adds to CPU time, too. A part is the time between
two moments of one process; the moments are taken by a program around ma_boot's own modules.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Callable

import tables
from launchers import COUNT, LAUNCHERS, PATH, environ

RUNS = 9
RUN = f"the run: the guard and {COUNT} processes, until all have ended"
RANK = [sys.executable, "-c", "pass"]  # as in the table of starts
# Writes the CPU seconds of its own process at each moment.
MOMENTS = """
import time
moments = [("Python itself, to its first line", 0.0, time.process_time())]
def moment(name):
    moments.append((name, moments[-1][2], time.process_time()))
import gc
gc.set_threshold(50_000)
import ma_boot.cli
moment("click")
import ma_boot.__main__, ma_boot.cli.run
moment("the command line: its modules, the options")
import ma_boot.cli.execute as execute
moment("the modules of a job")
import contextlib, json, sys
from ma_boot.report.journal import Journal
original = Journal.phase
@contextlib.contextmanager
def phase(journal, name):
    if name == "job":
        moment("parsing, signals, the console")
    if name == "run":
        moment("job, environment, rank table, launch")
    with original(journal, name) as running:
        yield running
    if name == "run":
        moment("RUN")
Journal.phase = phase
page_here = execute._page_here
def page(*arguments):
    import ma_boot.report.page
    moment("the modules of the page")
    try:
        return page_here(*arguments)
    finally:
        moment("the page")
execute._page_here = page
target = sys.argv.pop(1)
code = ma_boot.__main__.main()
moment("the report")
with open(target, "w") as file:
    json.dump([(name, after - before) for name, before, after in moments], file)
sys.exit(code)
""".replace("RUN", RUN)
IMPORTS = {
    "a job": "import ma_boot.cli.run, ma_boot.cli.execute, ma_boot.report.page",
    "a download that has nothing to do": "import path_mapping.stores.obs_store, path_mapping.transfer",
    "honcho": "import honcho.command",
}
KINDS = ("of Python", "of packages", "its own")
COMPLETION = {"_MA_BOOT_COMPLETE": "bash_complete", "COMP_WORDS": "ma_boot --re", "COMP_CWORD": "1"}
COMMANDS: dict[str, Sequence[str]] = {
    "`python -I -c pass`": ["-I", "-c", "pass"],
    "`python -c 'import click'`": ["-c", "import click"],
    "`ma_boot --version`": ["-m", "ma_boot", "--version"],
    "`ma_boot --help`": ["-m", "ma_boot", "--help"],
    "a completion": ["-c", "import sys; sys.argv[0] = 'ma_boot'; import ma_boot.__main__ as m; m.run()"],
}


class ProgramFailed(Exception):
    """A program ended with another code than 0."""


def cpu(argv: Sequence[str], variables: Mapping[str, str], cwd: Path) -> float:
    """The CPU milliseconds of a program and of all that it waits for. Raises `ProgramFailed`."""
    with subprocess.Popen(argv, cwd=cwd, env=dict(variables), stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise ProgramFailed(f"{argv}: exit code {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000


def least(runs: int, once: Callable[[Path], dict[str, float]]) -> dict[str, float]:
    """The least of each figure, of runs in directories of their own."""
    samples: list[dict[str, float]] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            samples.append(once(Path(name)))
    return {name: min(sample[name] for sample in samples) for name in samples[0]}


def parts(directory: Path) -> dict[str, float]:
    """The milliseconds of each part of a job of ranks that do nothing."""
    target = directory / "moments"
    cpu([sys.executable, "-c", MOMENTS, str(target), "--", "true"], environ(directory), directory)
    return {name: seconds * 1000 for name, seconds in json.loads(target.read_text())}


def commands(directory: Path) -> dict[str, float]:
    """The milliseconds of the commands that do nothing."""
    variables = {"PATH": PATH, "HOME": str(directory), "LANG": "C.UTF-8"}
    return {
        name: cpu(
            [sys.executable, *argv], {**variables, **(COMPLETION if "compl" in name else {})}, directory
        )
        for name, argv in COMMANDS.items()
    }


def imports(directory: Path) -> dict[str, float]:
    """The milliseconds of what programs import: the program, the kind and the number are in the name."""
    seconds: dict[str, float] = {}
    for name, program in IMPORTS.items():
        argv = [sys.executable, "-X", "importtime", "-c", program]
        done = subprocess.run(argv, cwd=directory, stderr=subprocess.PIPE, text=True, check=True)
        modules = re.findall(r"^import time: +(\d+) \|.*\| +(\w+)", done.stderr, re.MULTILINE)
        for kind in KINDS:
            spent = [int(own) for own, module in modules if kind_of(module) == kind]
            seconds[f"{name}|{kind}|{len(spent)}"] = sum(spent) / 1000
    return seconds


def kind_of(module: str) -> str:
    """Whose a module is, by the first part of its name."""
    if module in ("ma_boot", "path_mapping", "honcho"):
        return "its own"
    return "of Python" if module in sys.stdlib_module_names else "of packages"


def imports_table(figures: Mapping[str, float]) -> str:
    """One Markdown table of what `imports` has found."""
    lines = [f"| modules | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 1) + "|"]
    cells = {tuple(name.split("|")): value for name, value in figures.items()}
    for program in IMPORTS:
        row = [f"{number}: {value:.1f} ms" for (name, _, number), value in cells.items() if name == program]
        lines.append(f"| {program} | {' | '.join(row)} |")
    return "\n".join(lines)


def launchers(
    directory: Path, rank: Sequence[str] = ("true",), names: Collection[str] = ()
) -> dict[str, float]:
    """The milliseconds of each launcher, or of those named, with all its processes."""
    rows = {}
    for launcher in LAUNCHERS:
        if launcher.is_installed and (not names or launcher.name in names):
            own = directory / launcher.name.replace(" ", "-")
            own.mkdir()
            with contextlib.suppress(ProgramFailed):  # msrun starts nothing but Python
                rows[launcher.name] = cpu(launcher.argv(own, rank), environ(own), own)
    return rows


def at_best(parts: Mapping[str, float], figures: Mapping[str, float]) -> dict[str, float]:
    """The least wall time of a start, from its CPU time: only what runs beside the ranks can use all cores.

    `parts` are those of ma_boot's process, `figures` the CPU times of launchers with ranks that are Python.
    """
    cores = len(os.sched_getaffinity(0))
    before = sum(list(parts.values())[: list(parts).index(RUN)])
    after = sum(list(parts.values())[list(parts).index(RUN) + 1 :])
    beside = (figures["ma_boot"] - before - after) / cores
    loop = figures["shell loop"] / cores
    return {
        "ma_boot before the first rank, on one core": before,
        f"the ranks, the guard and the run, on {cores} cores": beside,
        "the page and the report, on one core": after,
        "all, at best": before + beside + after,
        f"the shell loop and its ranks, on {cores} cores": loop,
        "so many times the shell loop, at best": (before + beside + after) / loop,
    }


def table(title: str, figures: Mapping[str, float], unit: str = "", whole: bool = False) -> str:
    """One Markdown table: CPU milliseconds, and how many times `unit`'s they are, or their sum."""
    lines = [f"| {title} | ms{' | ratio' if unit else ''} |", f"|---|---|{'---|' if unit else ''}"]
    for name, value in figures.items():
        ratio = f" {value / figures[unit]:.1f} |" if unit else ""
        lines.append(f"| {name} | {value:.1f} |{ratio}")
    if whole:
        lines.append(f"| all | {sum(figures.values()):.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measures, and writes the tables into the pages."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=RUNS, help=f"of each ({RUNS})")
    options.add_argument("--print", action="store_true", help="leave the pages as they are")
    asked = options.parse_args()
    of_a_job = least(asked.runs, parts)
    with_python = least(asked.runs, lambda place: launchers(place, RANK, ("ma_boot", "shell loop")))
    text = "\n\n".join(
        [
            table(f"a job of {COUNT} ranks `true`: ma_boot's process", of_a_job, whole=True),
            table(
                f"a start of {COUNT} ranks `python -c pass`, by its CPU time", at_best(of_a_job, with_python)
            ),
            imports_table(least(asked.runs, imports)),
            table("command", least(asked.runs, commands), next(iter(COMMANDS))),
            table(
                f"launcher, with all its processes and {COUNT} ranks `true`",
                least(min(asked.runs, 3), launchers),
                "ma_boot",
            ),
        ]
    )
    print(text)
    if not asked.print:
        tables.write("where", text)


if __name__ == "__main__":
    main()
