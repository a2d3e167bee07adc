"""A rank raises: how soon do all ranks train again, beside the launchers that restart in place?

    python benchmarks/restart.py [--runs N]          (needs torch; ft_launcher is of nvidia-resiliency-ext)

Two ranks of PyTorch with gloo on the loopback, which save every fifth step and resume from there. In one job
rank 1 raises at step 17 once; in the other at each attempt. Each launcher may restart three times.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tables
from launchers import process_tree
from launchers.peers import PATH, environ

RANKS, RESTARTS, FAILS_AT, STEPS = 2, 3, 17, 25
LIMIT_SECONDS = 60.0
TRAINING = Path(__file__).parent / "launchers" / "restarted.py"
COMMON = [f"--nproc-per-node={RANKS}", "--nnodes=1", f"--max-restarts={RESTARTS}", "--rdzv-backend=c10d"]
LAUNCHERS: dict[str, list[str]] = {
    "ma_boot": [
        sys.executable, "-m", "ma_boot", "--python", sys.executable, "--rendezvous=torch",
        f"--max-restarts={RESTARTS}",
    ],
    "torchrun": ["torchrun", *COMMON, "--rdzv-endpoint=127.0.0.1:0"],
    "ft_launcher": [
        "ft_launcher", *COMMON, "--rdzv-endpoint=127.0.0.1:29478", "--ignore-missing-fault-tol-cfg"
    ],
}  # fmt: skip


class Sample(NamedTuple):
    """One job: seconds from the failure to the next step and to the end, steps made twice, attempts."""

    again: float
    lost: int
    attempts: int
    seconds: float
    code: str


def once(launcher: str, each_time: bool, directory: Path) -> Sample:
    """One job; `seconds` are those from the first failure to its end."""
    variables = {**environ(directory, RANKS), "MABOOT_START_SECONDS": "0", "OMP_NUM_THREADS": "1"}
    words = [str(TRAINING), str(directory), str(FAILS_AT), str(STEPS), "always" if each_time else "once"]
    with (directory / "console").open("wb") as console:
        process = subprocess.Popen(
            [*LAUNCHERS[launcher], *words],
            cwd=directory / "home",
            env=variables,
            stdout=console,
            stderr=console,
            stdin=subprocess.DEVNULL,
        )
        try:
            code: int | None = process.wait(LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
    ended = time.monotonic() if code is not None else math.inf
    process_tree.end_all()
    failures = [float(line) for line in _lines(directory / "failures")]
    steps = [line.split() for line in _lines(directory / "steps")]
    if not failures:
        raise RuntimeError(f"{launcher}: {(directory / 'console').read_text(errors='replace')[-600:]}")
    shown = "none" if code is None else str(code if code >= 0 else 128 - code)
    first = next(((int(step), float(at)) for attempt, step, at in steps if attempt == "2"), None)
    again = first[1] - failures[0] if first else math.inf
    lost = FAILS_AT - first[0] + 1 if first else FAILS_AT
    return Sample(again, lost, len(_lines(directory / "attempts")), ended - failures[0], shown)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def measured(each_time: bool, runs: int) -> dict[str, list[Sample]]:
    """The samples of the launchers that are installed, which take turns in a random order."""
    samples: dict[str, list[Sample]] = {
        name: [] for name, argv in LAUNCHERS.items() if shutil.which(argv[0], path=PATH)
    }
    for _ in range(runs):
        for name in random.sample(list(samples), len(samples)):
            with tempfile.TemporaryDirectory(prefix="bench-") as place:
                samples[name].append(once(name, each_time, Path(place)))
            print(name, samples[name][-1], file=sys.stderr)
    return samples


def once_table(samples: dict[str, list[Sample]]) -> str:
    """The table of a failure that comes once."""
    rows = [
        "launcher | failure to the next step (s) | spread | runs | steps lost | exit code",
        "---|" * 5 + "---",
    ]
    for name in LAUNCHERS:
        of = samples.get(name)
        rows.append(f"{name} | {_again(of)}" if of else f"{name} | missing")
    return "### A rank raises once\n\n" + "\n".join(f"| {row} |" for row in rows) + "\n"


def _again(of: Sequence[Sample]) -> str:
    times = sorted(sample.again for sample in of)
    codes = " / ".join(sorted({sample.code for sample in of}))
    lost = max((sample.lost for sample in of if math.isfinite(sample.again)), default=0)
    spread = f"{_figure(times[0])} - {_figure(times[-1])}"
    return f"{_figure(statistics.median(times))} | {spread} | {len(of)} | {lost} | {codes}"


def always_table(samples: dict[str, list[Sample]]) -> str:
    """The table of a failure that comes at each attempt."""
    rows = ["launcher | attempts | first failure to the end (s) | runs | exit code", "---|" * 4 + "---"]
    for name in LAUNCHERS:
        of = samples.get(name)
        rows.append(f"{name} | {_given_up(of)}" if of else f"{name} | missing")
    return "### A rank raises the same each time\n\n" + "\n".join(f"| {row} |" for row in rows) + "\n"


def _given_up(of: Sequence[Sample]) -> str:
    seconds = statistics.median(sample.seconds for sample in of)
    codes = " / ".join(sorted({sample.code for sample in of}))
    return f"{max(sample.attempts for sample in of)} | {_figure(seconds)} | {len(of)} | {codes}"


def _figure(seconds: float) -> str:
    return f"{seconds:.2f}" if math.isfinite(seconds) else f"no end in {LIMIT_SECONDS:.0f} s"


def main() -> None:
    """Measures, and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="jobs of each launcher and kind (5)")
    runs = parser.parse_args().runs
    process_tree.adopt_orphans()
    text = once_table(measured(False, runs)) + "\n" + always_table(measured(True, max(1, runs // 2)))
    print(text)
    tables.write("restart", text)


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    main()
