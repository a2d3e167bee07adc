"""torch.compile in a job: the first step of a start without a compile cache, and with one.

    .venv/bin/python benchmarks/compile_cache.py --python PYTHON [--runs N]          (PYTHON has torch)

Rehearsals of one rank on the CPU, one after the other, each in a node directory of its own. The code changes
before each cold start, so that it finds nothing. No peer is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import tables

TRAINING = Path(__file__).parent / "launchers" / "compiled.py"
MAPPING = "cache:\n  cc: obs://bucket/caches/\n"
OPTIONS = ["--local", "-v", "--nodes", "1", "--devices-per-node", "1", "--obs-root", "obs"]


class Sample(NamedTuple):
    """A start: seconds of the first step, of restoring the cache, of the job; files by the counters."""

    step: float
    restore: float
    job: float
    found: int
    compiled: int


def once(directory: Path, python: str) -> Sample:
    """One rehearsal."""
    words = [*OPTIONS, "--python", python, "--path-mapping", "mapping.yaml", "code/train.py"]
    done = subprocess.run(
        [sys.executable, "-m", "ma_boot", *words],
        cwd=directory,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    step = re.search(r"first step ([\d.]+)", done.stdout)
    files = re.search(r"compile cache: (\d+) files from the cache, (\d+) compiled", done.stdout)
    if done.returncode or step is None or files is None:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    newest = max(directory.glob("ma_boot-rehearsal/*/node-0"), key=lambda node: node.stat().st_mtime_ns)
    (events,) = newest.rglob("*-events.jsonl")
    seconds = {
        event["phase"]: event["seconds"]
        for event in map(json.loads, events.read_text().splitlines())
        if event["kind"] == "phase-end"
    }
    return Sample(
        float(step[1]), seconds["compile cache"], sum(seconds.values()), int(files[1]), int(files[2])
    )


def measured(python: str, runs: int) -> dict[str, list[Sample]]:
    """The samples of cold and warm starts, in turns."""
    samples: dict[str, list[Sample]] = {"cold": [], "from the cache": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        directory = Path(place)
        (directory / "obs" / "bucket").mkdir(parents=True)
        (directory / "code").mkdir()
        (directory / "mapping.yaml").write_text(MAPPING)
        for run in range(runs):
            (directory / "code" / "train.py").write_text(f"{TRAINING.read_text()}\n# run {run}\n")
            for name in samples:
                samples[name].append(once(directory, python))
                print(name, samples[name][-1], file=sys.stderr)
    return samples


def table(samples: dict[str, list[Sample]]) -> str:
    """Returns the table of RESULTS.md."""
    rows = [
        "start | first step (s) | spread | cache restored in (s) | job (s) | files found | compiled | runs",
        "---|" * 7 + "---",
    ]
    for name, of in samples.items():
        steps = sorted(sample.step for sample in of)
        figures = [
            f"{statistics.median(steps):.1f}",
            f"{steps[0]:.1f} - {steps[-1]:.1f}",
            f"{statistics.median(sample.restore for sample in of):.2f}",
            f"{statistics.median(sample.job for sample in of):.1f}",
            f"{max(sample.found for sample in of)}",
            f"{max(sample.compiled for sample in of)}",
            f"{len(of)}",
        ]
        rows.append(" | ".join([name, *figures]))
    return "\n".join(f"| {row} |" for row in rows) + "\n"


def main() -> None:
    """Measures, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="a python with torch")
    parser.add_argument("--runs", type=int, default=3, help="pairs of starts (3)")
    arguments = parser.parse_args()
    text = table(measured(os.path.abspath(arguments.python), arguments.runs))
    print(text)
    tables.write("compile cache", text)


if __name__ == "__main__":
    main()
