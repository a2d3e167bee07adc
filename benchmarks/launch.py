"""Starts, stops and listens to eight ranks, beside the launchers that people use today.

    python benchmarks/launch.py [--runs N] [--only start,failure,stop,deaf,output,idle]          (make bench)

Whole processes, all in one run. In each round the launchers take turns in a new random order; what counts is
the median and its ratio to ma_boot's. A run that takes longer than `SLOW_SECONDS` is not repeated. What a
launcher leaves behind is counted and then ended. Markdown tables on standard output, progress on the other.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

import process_tree
from job import Job, Unusable
from launchers import LAUNCHERS, Launcher
from rank import COUNT, FAILURE_CODE, LINE_BYTES
from throughput import Received, cat_alone, received

SLOW_SECONDS = 8.0
IDLE_SECONDS = 10.0
FAILURE_LIMIT_SECONDS = 20.0
STOPPED = 128 + signal.SIGTERM
LINES = 250_000  # of each rank


@dataclass(frozen=True)
class Sample:
    """One run: what was measured, and what is to be said about it."""

    value: float
    remarks: Sequence[str] = ()


@dataclass(frozen=True)
class Measurement:
    """`once` makes one run of a launcher in a new directory; the value is in `unit`."""

    name: str
    title: str
    unit: str
    once: Callable[[Launcher, Path], Sample]
    repeated: bool = True


def start(launcher: Launcher, directory: Path) -> Sample:
    """Ranks that do nothing: from the launcher's start to its end."""
    with Job(launcher, directory, ["python", "-I", "-S", "-c", "pass"]) as job:
        ended = job.end(within=60)
        return Sample(ended - job.started, job.remarks(0))


def failure(launcher: Launcher, directory: Path) -> Sample:
    """One rank fails, seven sleep: from the failure to the launcher's end."""
    with Job.of_ranks(launcher, directory, "fail") as job:
        failed = float(job.mark("moment", 1)[0])
        ended = job.end(within=FAILURE_LIMIT_SECONDS)
        return Sample(ended - failed, job.remarks(FAILURE_CODE))


def stop(launcher: Launcher, directory: Path) -> Sample:
    """SIGTERM to the launcher of ranks that end at SIGTERM."""
    return _stopped(launcher, directory, "sleep", [])


def deaf(launcher: Launcher, directory: Path) -> Sample:
    """SIGTERM to the launcher of ranks that ignore it."""
    return _stopped(launcher, directory, "deaf", [f"grace: {launcher.grace}"])


def _stopped(launcher: Launcher, directory: Path, mode: str, remarks: List[str]) -> Sample:
    with Job.of_ranks(launcher, directory, mode) as job:
        job.mark("ready", COUNT)
        told = time.monotonic()
        os.kill(job.process.pid, signal.SIGTERM)
        ended = job.end(within=60)
        return Sample(ended - told, [*remarks, *job.remarks(STOPPED)])


def output(launcher: Launcher, directory: Path) -> Sample:
    """Eight ranks write at full speed: MB/s of theirs that come out of the launcher."""
    with Job.of_ranks(launcher, directory, "write", str(LINES), piped=True) as job:
        with received(job.process, directory / "out") as got:
            job.end(within=100)
            remarks = job.remarks(0)
            job.end_all()  # as the end of a container does
        began = min(map(float, job.mark("moment", COUNT)))
        return _through(got, began, remarks)


def _through(got: Received, began: float, remarks: Sequence[str]) -> Sample:
    intact, ordered = got.counted()
    lost = COUNT * LINES - intact
    said = [f"{lost:,} of {COUNT * LINES:,} lines lost or torn" if lost else "all lines"]
    said.append("in order" if ordered else "NOT in order")
    return Sample(intact * LINE_BYTES / 1e6 / (got.last - began), [*said, *remarks])


def idle(launcher: Launcher, directory: Path) -> Sample:
    """Processor time and memory of all that is not a rank, while the ranks sleep."""
    with Job.of_ranks(launcher, directory, "sleep") as job:
        ranks = {int(pid) for pid in job.mark("ready", COUNT)}
        time.sleep(1)  # the start is over
        main = job.process.pid
        own = sorted(({main} | process_tree.below(main)) - ranks)
        used = sum(map(process_tree.cpu_seconds, own))
        time.sleep(IDLE_SECONDS)
        used = sum(map(process_tree.cpu_seconds, own)) - used
        hwm, pss = process_tree.peak_rss(main), sum(map(process_tree.pss, own))
        many = f"{len(own)} processes" if len(own) > 1 else "1 process"
        cpu = f"{used / IDLE_SECONDS:.1%} of a core"
        return Sample(pss, [cpu, f"VmHWM {hwm:.0f} MB", many])


MEASUREMENTS = (
    Measurement("start", f"{COUNT} ranks that do nothing, from start to exit", "s", start),
    Measurement("failure", "From the failure of one rank, while seven sleep, to the launcher's exit", "s", failure),
    Measurement("stop", "From SIGTERM to exit, ranks that co-operate", "s", stop),
    Measurement("deaf", "From SIGTERM to exit, ranks deaf to SIGTERM", "s", deaf),
    Measurement("output", f"{COUNT} ranks write {LINES:,} lines of {LINE_BYTES} bytes each", "MB/s", output),
    Measurement("idle", f"While {COUNT} ranks sleep: PSS of all but the ranks", "MB", idle, repeated=False),
)


def measured(measurement: Measurement, runs: int) -> Dict[str, List[Sample]]:
    """The samples of each launcher that is installed; one that cannot be used gets a remark instead."""
    samples: Dict[str, List[Sample]] = {launcher.name: [] for launcher in LAUNCHERS if launcher.found}
    ahead = [launcher for launcher in LAUNCHERS if launcher.found]
    for _ in range(runs if measurement.repeated else 1):
        for launcher in random.sample(ahead, len(ahead)):
            began = time.monotonic()
            try:
                with tempfile.TemporaryDirectory(prefix="bench-") as name:
                    sample: Sample = measurement.once(launcher, Path(name))
            except Unusable as error:
                sample = Sample(float("nan"), [str(error)])
            samples[launcher.name].append(sample)
            took = time.monotonic() - began
            said = f"{sample.value:.3f} {measurement.unit}"
            print(f"{measurement.name}: {launcher.name}: {said} ({took:.1f} s)", file=sys.stderr)
            if took > SLOW_SECONDS or sample.value != sample.value:
                ahead.remove(launcher)
    return samples


def table(measurement: Measurement, samples: Dict[str, List[Sample]]) -> str:
    """One Markdown table; what is not installed is in it too."""
    lines = [
        f"### {measurement.title}\n",
        f"| launcher | median ({measurement.unit}) | spread | runs | beside ma_boot | remarks |",
        "|---|---|---|---|---|---|",
    ]
    ours = _median(samples["ma_boot"])
    for launcher in LAUNCHERS:
        if launcher.name in samples:
            lines.append(_row(launcher.name, samples[launcher.name], ours))
        else:
            lines.append(f"| {launcher.name} | missing | | 0 | | not installed: {launcher.source} |")
    if measurement.name == "output":
        alone = [Sample(cat_alone(COUNT * LINES * LINE_BYTES)) for _ in range(3)]
        lines.append(_row("`cat` alone", alone, ours))
    return "\n".join(lines) + "\n"


def _median(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.value for sample in samples)


def _row(name: str, samples: Sequence[Sample], ours: Optional[float]) -> str:
    median = _median(samples)
    values = sorted(sample.value for sample in samples)
    remarks = "; ".join(dict.fromkeys(remark for sample in samples for remark in sample.remarks))
    if median != median:
        return f"| {name} | unusable | | {len(samples)} | | {remarks} |"
    spread = f"{_figure(values[0])} - {_figure(values[-1])}"
    return f"| {name} | {_figure(median)} | {spread} | {len(samples)} | {median / ours:.2f} | {remarks} |"


def _figure(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def main() -> None:
    """Prints the tables."""
    names = [measurement.name for measurement in MEASUREMENTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="rounds of each measurement (5)")
    parser.add_argument("--only", default=",".join(names), help=f"some of {','.join(names)}")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if options.runs < 1 or not set(wanted) <= set(names):
        parser.error(f"--runs is a number from 1, --only takes {', '.join(names)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    process_tree.adopt_orphans()
    for launcher in LAUNCHERS:  # not counted: files are read from the disk once
        if launcher.found:
            with tempfile.TemporaryDirectory(prefix="bench-") as name:
                start(launcher, Path(name))
    for measurement in MEASUREMENTS:
        if measurement.name in wanted:
            print(table(measurement, measured(measurement, options.runs)), flush=True)


if __name__ == "__main__":
    main()
