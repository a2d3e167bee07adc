"""Reads, validates and converts rank tables of growing jobs, beside ModelArts' own launcher (davincirunsdk).

    python benchmarks/rank_table.py          (make bench)

Whole processes, in turn, five counted runs each after one that is not; the median, and their ratio. Ours also
validates and writes atomically; theirs only converts. The last line is the time from a table that is
completed to `ma_boot rank-table wait` having ended, in a process that is already waiting.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import tables

from ma_boot.platform.rank_table import fake

SIZES = (2, 128, 2048)  # servers of eight cards
RUNS = 5
PEER = "import sys; from davincirunsdk.rank_table import RankTableV0; RankTableV0(sys.argv[1])"


def seconds(argv: Sequence[str], environ: dict[str, str]) -> float:
    """How long one process takes."""
    started = time.monotonic()
    subprocess.run(argv, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def compared(directory: Path, servers: int) -> str:
    """The row of a job of so many servers."""
    file = directory / "jobstart_hccl.json"
    file.write_text(json.dumps(fake(servers, 8)))
    environ = {**os.environ, "MA_HOME": str(directory)}
    target = str(directory / "one.json")
    ours = [sys.executable, "-m", "ma_boot", "rank-table", "convert", str(file), "-o", target]
    theirs = [sys.executable, "-c", PEER, str(file)]
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for run in range(RUNS + 1):
        for name, argv in (("ours", ours), ("theirs", theirs)):
            taken = seconds(argv, environ)
            if run:
                times[name].append(taken)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    cells = f"{medians['ours']:.3f} s | {medians['theirs']:.3f} s | {medians['ours'] / medians['theirs']:.2f}"
    return f"| {servers * 8:,} | {cells} |"


def latency(directory: Path) -> float:
    """Seconds from the table's completion to the end of a wait for it."""
    file = directory / "late.json"
    file.write_text('{"status":"initializing"}')
    argv = [sys.executable, "-m", "ma_boot", "rank-table", "wait", str(file)]
    waiting = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if waiting.stderr is not None:
        waiting.stderr.readline()  # it has looked once, and waits
        completed = time.monotonic()
        file.write_text(json.dumps(fake(2, 8)))
        waiting.wait()
        waiting.stderr.close()
        return time.monotonic() - completed
    raise AssertionError("a pipe was asked for")


def main() -> None:
    """Measures, and writes the table into the pages."""
    lines = ["| devices | ma_boot | davincirunsdk | ratio |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        lines += [compared(directory, servers) for servers in SIZES]
        latencies = sorted(latency(directory) for _ in range(RUNS))
    median, longest = latencies[RUNS // 2] * 1000, latencies[-1] * 1000
    lines.append(
        "\nFrom the moment that a table is completed to the end of a process that waits for it: "
        f"median {median:.0f} ms, longest of {RUNS} {longest:.0f} ms."
    )
    print("\n".join(lines))
    tables.write("rank table", "\n".join(lines))


if __name__ == "__main__":
    main()
