"""Starts, stops and listens to eight ranks, beside the launchers that people use today.

    python benchmarks/launch.py [--runs N] [--only start,failure,stop,deaf,output,idle]      (make bench)

Whole processes, all in one run. In each round the launchers take turns in a new random order; what counts is
the median and its ratio to ma_boot's. A run that takes longer than `LONG_SECONDS` is not repeated; three that
do so together are enough. What a launcher leaves behind is counted and then ended. Each table is written into
its page when it is complete, and on standard output; progress on the other.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import tables
from launchers import (
    COUNT,
    FAILURE_CODE,
    LAUNCHERS,
    LINE_BYTES,
    Job,
    Launcher,
    Unusable,
    cat_alone,
    process_tree,
    received,
)

LONG_SECONDS = 6.0
FEWEST_RUNS = 3
IDLE_SECONDS = 10.0
FAILURE_LIMIT_SECONDS = 10.0
LIMIT_SECONDS = 35.0  # longer than any launcher's grace
STOPPED = 128 + signal.SIGTERM
LINES = 100_000  # of each rank


@dataclass(frozen=True)
class Sample:
    """One run: what was measured, and what else is to be said, in the measurement's columns.

    The value is infinite where the launcher did not end, and not a number where it could not be used.
    """

    value: float
    columns: Sequence[int | str] = ()
    remark: str = ""


@dataclass(frozen=True)
class Measurement:
    """`once` makes one run of a launcher in a new directory; the value is in `unit`.

    Of several runs, a column shows the largest number, or all different texts.
    """

    name: str
    title: str
    unit: str
    columns: Sequence[str]
    once: Callable[[Launcher, Path], Sample]
    repeated: bool = True


def start(launcher: Launcher, directory: Path) -> Sample:
    """Ranks that do nothing: from the launcher's start to its end."""
    with Job(launcher, directory, [sys.executable, "-c", "pass"]) as job:
        ended = job.end(LIMIT_SECONDS)
        return Sample(ended - job.started, [job.exit_code(0)])


def failure(launcher: Launcher, directory: Path) -> Sample:
    """One rank fails, seven sleep: from the failure to the launcher's end."""
    with Job.of_ranks(launcher, directory, "fail") as job:
        failed = float(job.mark("moment", 1)[0])
        ended = job.end(FAILURE_LIMIT_SECONDS)
        return Sample(ended - failed, [job.exit_code(FAILURE_CODE), job.left])


def stop(launcher: Launcher, directory: Path) -> Sample:
    """SIGTERM to the launcher of ranks that end at SIGTERM."""
    return _stopped(launcher, directory, "sleep")


def deaf(launcher: Launcher, directory: Path) -> Sample:
    """SIGTERM to the launcher of ranks that ignore it."""
    sample = _stopped(launcher, directory, "deaf")
    return Sample(sample.value, [launcher.grace, *sample.columns])


def _stopped(launcher: Launcher, directory: Path, mode: str) -> Sample:
    with Job.of_ranks(launcher, directory, mode) as job:
        job.mark("ready", COUNT)
        signalled = time.monotonic()
        os.kill(job.process.pid, signal.SIGTERM)
        ended = job.end(LIMIT_SECONDS)
        return Sample(ended - signalled, [job.exit_code(STOPPED), job.left])


def output(launcher: Launcher, directory: Path) -> Sample:
    """Eight ranks write at full speed: MB/s of theirs that come out of the launcher."""
    with Job.of_ranks(launcher, directory, "write", str(LINES), piped=True) as job:
        with received(job.process, directory / "out") as got:
            try:
                job.end(LIMIT_SECONDS)
            finally:
                job.end_all()  # as the end of a container does: what is not in the pipe by now is lost
        began = min(map(float, job.mark("moment", COUNT)))
        whole, repeated, ordered = got.counted(LINES)
        rate = whole * LINE_BYTES / 1e6 / (got.last - began)
        lost = COUNT * LINES - whole
        return Sample(rate, [lost, repeated, "yes" if ordered else "no", job.exit_code(0)])


def idle(launcher: Launcher, directory: Path) -> Sample:
    """Processor time and memory of all that is not a rank, while the ranks sleep."""
    with Job.of_ranks(launcher, directory, "sleep") as job:
        ranks = {int(pid) for pid in job.mark("ready", COUNT)}
        time.sleep(1)  # the start is over
        main = job.process.pid
        own = sorted(({main} | process_tree.below(main)) - ranks)
        used = sum(map(process_tree.cpu_seconds, own))
        began = time.monotonic()
        time.sleep(IDLE_SECONDS)
        used = (sum(map(process_tree.cpu_seconds, own)) - used) / (time.monotonic() - began)
        if not all(map(process_tree.alive, [*own, *ranks])):
            raise Unusable("it ended while its ranks slept")
        highest, pss = process_tree.peak_rss(main), sum(map(process_tree.pss, own))
        return Sample(pss, [f"{highest:.1f}", len(own), f"{used:.1%}"])


_ENDING = ("exit code", "ranks left")
MEASUREMENTS = (
    Measurement("start", f"{COUNT} ranks that do nothing, from start to exit", "s", ("exit code",), start),
    Measurement("failure", "From the failure of one rank to the launcher's exit", "s", _ENDING, failure),
    Measurement("stop", "From SIGTERM to exit, ranks that end at SIGTERM", "s", _ENDING, stop),
    Measurement("deaf", "From SIGTERM to exit, ranks deaf to SIGTERM", "s", ("grace", *_ENDING), deaf),
    Measurement(
        "output",
        f"{COUNT} ranks write {LINES:,} lines of {LINE_BYTES} bytes each",
        "MB/s",
        (f"lost or torn of {COUNT * LINES:,}", "repeated", "order kept", "exit code"),
        output,
    ),
    Measurement(
        "idle",
        f"While {COUNT} ranks sleep, without the ranks: PSS",
        "MB",
        ("VmHWM of the launcher (MB)", "processes", f"CPU in {IDLE_SECONDS:.0f} s, of one core"),
        idle,
        repeated=False,
    ),
)


def measured(measurement: Measurement, runs: int) -> dict[str, list[Sample]]:
    """The samples of each launcher that is installed; one that cannot be used gets a remark instead."""
    samples: dict[str, list[Sample]] = {launcher.name: [] for launcher in LAUNCHERS if launcher.is_installed}
    ahead = [launcher for launcher in LAUNCHERS if launcher.is_installed]
    spent: dict[str, list[float]] = {name: [] for name in samples}
    for _ in range(runs if measurement.repeated else 1):
        for launcher in random.sample(ahead, len(ahead)):
            began = time.monotonic()
            try:
                with tempfile.TemporaryDirectory(prefix="bench-") as name:
                    sample: Sample = measurement.once(launcher, Path(name))
            except Unusable as error:
                sample = Sample(math.nan, remark=str(error))
            samples[launcher.name].append(sample)
            spent[launcher.name].append(time.monotonic() - began)
            line = f"{sample.value:.3f} {measurement.unit} {sample.remark}"
            print(f"{measurement.name}: {launcher.name}: {line}", file=sys.stderr)
            if math.isnan(sample.value) or _enough(spent[launcher.name]):
                ahead.remove(launcher)
    return samples


def _enough(spent: Sequence[float]) -> bool:
    """The runs took so long that there is no further one."""
    return max(spent) > LONG_SECONDS or (len(spent) >= FEWEST_RUNS and sum(spent) > LONG_SECONDS)


def table(measurement: Measurement, samples: dict[str, list[Sample]]) -> str:
    """One Markdown table; what is not installed is in it too."""
    names = [
        "launcher",
        f"median ({measurement.unit})",
        "spread",
        "runs",
        "ma_boot = 1",
        *measurement.columns,
    ]
    lines = [f"### {measurement.title}\n", _cells(names), "|" + "---|" * len(names)]
    ours = _median(samples["ma_boot"])
    for launcher in LAUNCHERS:
        if launcher.name in samples:
            lines.append(_row(launcher.name, samples[launcher.name], ours))
        else:
            lines.append(_cells([launcher.name, f"missing: {launcher.source} installs it"]))
    if measurement.name == "output":
        alone = [Sample(cat_alone(COUNT * LINES * LINE_BYTES)) for _ in range(3)]
        lines.append(_row("`cat` alone", alone, ours))
    return "\n".join(lines) + "\n"


def _median(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.value for sample in samples)


def _row(name: str, samples: Sequence[Sample], ours: float) -> str:
    broken = next((sample for sample in samples if sample.remark), None)
    if broken:
        return _cells([name, f"unusable: {broken.remark}"])
    values = sorted(sample.value for sample in samples)
    median = _median(samples)
    ratio = f"{median / ours:.2f}" if math.isfinite(median) else "-"
    spread = f"{_figure(values[0])} - {_figure(values[-1])}" if len(values) > 1 else "-"
    columns = [_merged(values) for values in zip(*(sample.columns for sample in samples))]
    return _cells([name, _figure(median), spread, str(len(samples)), ratio, *columns])


def _merged(values: Sequence[int | str]) -> str:
    numbers = [value for value in values if isinstance(value, int)]
    return f"{max(numbers):,}" if numbers else " / ".join(dict.fromkeys(map(str, values)))


def _figure(value: float) -> str:
    if math.isinf(value):
        return "no end"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _cells(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def main() -> None:
    """Measures, and writes the tables."""
    names = [measurement.name for measurement in MEASUREMENTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="rounds of each measurement (5)")
    parser.add_argument("--only", default=",".join(names), help=f"some of {','.join(names)}")
    parser.add_argument("--print", action="store_true", help="leave the pages as they are")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if options.runs < 1 or not set(wanted) <= set(names):
        parser.error(f"--runs is a number from 1, --only takes {', '.join(names)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    process_tree.adopt_orphans()
    try:
        _warm_up()
        for measurement in MEASUREMENTS:
            if measurement.name in wanted:
                text = table(measurement, measured(measurement, options.runs))
                print(text, flush=True)
                if not options.print:
                    tables.write(measurement.name, text)
    finally:
        process_tree.end_all()


def _warm_up() -> None:
    """A run that is not counted: files are read from the disk once."""
    for launcher in LAUNCHERS:
        if launcher.is_installed:
            with tempfile.TemporaryDirectory(prefix="bench-") as name:
                start(launcher, Path(name))


if __name__ == "__main__":
    main()
