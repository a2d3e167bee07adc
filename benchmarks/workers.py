"""What more worker processes bring: a download of 10,000 small files by 1, 2 and 4, and a model of more.

    .bench/bin/python benchmarks/workers.py [--runs N] [--directory D] [--print]

On two cores more processes than cores cannot be measured, but what limits them can: the CPU time that a file
takes in a worker, and in the process that plans, hands out and records. Both are measured here. With enough
cores, and the store elsewhere, so many workers move as many files as their CPU time lets, until that one
process is busy all the time, or the service refuses more requests.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import tables
from sync import emptied, make_trees, served, wait_for_disk
from sync_tools import KEYS

from path_mapping.transfer.parts import REQUESTS_OF_OBS

RUNS = 5
MEASURED = (1, 2, 4)
MODELLED = (1, 2, 4, 8, 16)
FILES = 10_000
PROGRAM = """
import json, resource, sys
from pathlib import Path
from path_mapping import transfer
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from path_mapping.transfer import scheduler
from path_mapping.transfer.parts import CONNECTIONS_EACH, PoolSize
url, local, processes = sys.argv[1:]
scheduler.pool_size = lambda *work, **more: PoolSize(int(processes), CONNECTIONS_EACH)
store = ObsStore(Access(url, Credentials("a", "b")))
transfer.download([Route(local, ObsUrl("bucket", "A/"))], Path("/"), transfer.RetriedStore(store))
def seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime
print(json.dumps([seconds(resource.RUSAGE_SELF), seconds(resource.RUSAGE_CHILDREN)]))
"""


class Download(NamedTuple):
    """One run: its seconds, and the CPU seconds of the process that hands out, and of its workers."""

    seconds: float
    planner: float
    workers: float


def download(url: str, local: Path, processes: int) -> Download:
    """One run with so many worker processes."""
    local.mkdir()
    wait_for_disk()
    argv = [sys.executable, "-c", PROGRAM, url, str(local), str(processes)]
    started = time.monotonic()
    done = subprocess.run(argv, env={**os.environ, **KEYS}, stdout=subprocess.PIPE, check=True)
    seconds = time.monotonic() - started
    emptied(local)
    return Download(seconds, *json.loads(done.stdout))


def measured(downloads: dict[int, list[Download]]) -> str:
    """The table of what was measured: medians."""
    lines = [
        "| worker processes | s | spread | files/s | CPU ms of a file in its worker | in the one process |",
        "|---" * 6 + "|",
    ]
    for processes, runs in downloads.items():
        times = sorted(run.seconds for run in runs)
        middle = statistics.median(times)
        each = _of_a_file(runs)
        lines.append(
            f"| {processes} | {middle:.2f} | {times[0]:.2f} - {times[-1]:.2f} | {FILES / middle:,.0f} "
            f"| {each.workers * 1000:.2f} | {each.planner * 1000:.3f} |"
        )
    return "\n".join(lines)


def modelled(each: Download) -> str:
    """The table of what follows for more cores, from the CPU seconds of a file."""
    lines = [
        "| worker processes, a core for each | files/s by their CPU | by the one process | by OBS | so |",
        "|---" * 5 + "|",
    ]
    for processes in MODELLED:
        limits = {
            "the workers": processes / each.workers,
            "the one process": 1 / each.planner,
            "OBS": float(REQUESTS_OF_OBS),
        }
        least = min(limits, key=limits.__getitem__)
        row = " | ".join(f"{limit:,.0f}" for limit in limits.values())
        lines.append(f"| {processes} | {row} | {limits[least]:,.0f}: {least} |")
    return "\n".join(lines)


def _of_a_file(runs: list[Download]) -> Download:
    """The median CPU seconds of one file."""
    middles = (statistics.median(figures) / FILES for figures in zip(*runs))
    return Download(*middles)


def main() -> None:
    """Measures, and writes the tables into the pages."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=RUNS, help=f"of each number of processes ({RUNS})")
    options.add_argument("--directory", type=Path, default=None, help="where a GB is free")
    options.add_argument("--print", action="store_true", help="leave the pages as they are")
    asked = options.parse_args()
    downloads: dict[int, list[Download]] = {processes: [] for processes in MEASURED}
    with tempfile.TemporaryDirectory(dir=asked.directory) as directory:
        tree, out = Path(directory, "tree"), Path(directory, "out")
        out.mkdir()
        make_trees(tree, ["A"])
        with served(tree) as url:
            for number in range(asked.runs):
                for processes, runs in downloads.items():
                    runs.append(download(url, out / f"{processes}-{number}", processes))
    both = f"{measured(downloads)}\n\n{modelled(_of_a_file(downloads[1]))}"
    print(both)
    if not asked.print:
        tables.write("workers", both)


if __name__ == "__main__":
    main()
