"""What the metrics of eight ranks cost: processor time, and bytes of events.

    python benchmarks/metrics.py [--seconds N] [--print]      (make bench)

Eight ranks with two data loaders each print twenty lines a second, one of them with step and loss. ma_boot
runs them with a sample every second and with none, in turn; the difference of its CPU time by the number of
samples is the cost of a sample, which is then said for the default of one in ten seconds. The table is
written into RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import tables
from launchers import COUNT, environ, process_tree

DEFAULT_SECONDS = 10.0  # between samples
ROUNDS = 3
LOADERS = 2
RANK = """
import os, subprocess, sys, time
rank, directory = os.environ["RANK_ID"], sys.argv[1]
loaders = [subprocess.Popen(["sleep", "300"]) for _ in range(int(sys.argv[2]))]
open(f"{directory}/ready.{rank}", "w").close()
step = 0
while True:
    time.sleep(1)
    step += 1
    lines = ["Saving a checkpoint, learning rate 0.001, throughput 123.4 samples/s, and some more text"] * 19
    print(*lines, f"epoch: 1 step: {step}, loss is {1 / step}", sep="\\n", flush=True)
"""


class Cost(NamedTuple):
    """CPU seconds of ma_boot in a period, and of the events of its samples: how many, and their bytes."""

    cpu: float
    samples: int
    size: int


def measured(interval: str, seconds: float) -> Cost:
    """One run of ma_boot with a sample every `interval` seconds."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        directory = Path(name)
        (directory / "train.py").write_text(RANK)
        options = ["--tee", "none", "--metrics", interval, "--python", sys.executable]
        command = [str(directory / "train.py"), name, str(LOADERS)]
        with (directory / "console").open("wb") as console, subprocess.Popen(
            [sys.executable, "-m", "ma_boot", *options, *command],
            env=environ(directory), cwd=directory / "home", stdout=console, stderr=console,
        ) as process:  # fmt: skip
            try:
                while len(list(directory.glob("ready.*"))) < COUNT:
                    if process.poll() is not None:
                        sys.exit((directory / "console").read_text())
                    time.sleep(0.05)
                time.sleep(3)  # the first sample loads the modules
                before, events_before = process_tree.cpu_seconds(process.pid), events(directory)
                time.sleep(seconds)
                used = process_tree.cpu_seconds(process.pid) - before
                new = events(directory)[len(events_before) :]
            finally:
                process.send_signal(signal.SIGTERM)
        return Cost(used, len(new), sum(map(len, new)))


def events(directory: Path) -> list[bytes]:
    """The lines of the samples so far."""
    files = directory.glob("home/modelarts/log/*-events.jsonl")
    lines = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
    return [line for line in lines if json.loads(line)["kind"] == "metrics"]


def table(seconds: float) -> str:
    """Measures, and makes the table."""
    cost, without, sizes = [], [], []
    for _ in range(ROUNDS):
        on, off = measured("1", seconds), measured("off", seconds)
        cost.append((on.cpu - off.cpu) / on.samples)
        without.append(off.cpu / seconds)
        sizes.append(on.size / on.samples)
    sample, size = statistics.median(cost), statistics.median(sizes)
    share = sample / DEFAULT_SECONDS
    spread = f"{min(cost) * 1000:.1f} - {max(cost) * 1000:.1f}"
    columns = {
        "ranks": f"{COUNT}, with {COUNT * LOADERS} data loaders",
        "a sample (ms of CPU)": f"{sample * 1000:.1f}",
        "spread": spread,
        "one in 10 s, of one core": f"{share:.2%}",
        "ma_boot without, of one core": f"{statistics.median(without):.2%}",
        "events in an hour (MB)": f"{size * 3600 / DEFAULT_SECONDS / 1e6:.2f}",
    }
    rows = (columns, ["---"] * len(columns), columns.values())
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """Measures, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each of six runs (20)")
    parser.add_argument("--print", action="store_true", help="leave the pages as they are")
    options = parser.parse_args()
    text = table(options.seconds)
    print(text)
    if not options.print:
        tables.write("metrics", text)


if __name__ == "__main__":
    main()
