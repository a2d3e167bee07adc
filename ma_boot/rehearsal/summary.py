"""The last screen of a rehearsal: phase by phase, with durations, and where things are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from ma_boot.errors import signal_name
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.reporting import RunResult
from ma_boot.reporting.timeline import Event, read_events

_WORST_FIRST = ("failed", "stopped", "done")


def summary_lines(
    job: SimulatedJob, run: RunResult, code: int, seconds: float, obs_root: Optional[str], page: Optional[str]
) -> List[str]:
    """At most 15 lines; each phase with the time of its slowest node, and what the worst one found."""
    shown: Dict[str, Event] = {}
    for node in range(job.nodes):
        for phase in _phases(job, node):
            known = shown.setdefault(phase["phase"], phase)
            worst = min(known, phase, key=lambda p: _WORST_FIRST.index(p["outcome"]))
            shown[phase["phase"]] = {**worst, "seconds": max(known["seconds"], phase["seconds"])}
    lines = [f"rehearsal of {job.name}: {job.nodes} nodes x {job.devices_per_node} devices, {seconds:.1f} s"]
    lines += [
        f"  {name:12} {phase['outcome']:8} {phase['seconds']:6.1f} s  {phase['detail']:.120}"
        for name, phase in shown.items()
    ]
    if obs_root:
        lines.append(f"obs:// is in {obs_root}")
    lines.append(f"logs of each process: {job.root}/node-*/home/ma-user/modelarts/log")
    if page is not None:
        lines.append(f"page: {page}")
    return [*lines, f"exit code {code}: {cause(job, run, code)}"]


def end_of_job(job: SimulatedJob, run: RunResult, stops: Sequence[int]) -> Dict[str, Any]:
    """The fields of the job's last event besides its exit code."""
    failure = run.first_failure
    by = "signal" if stops else "ma_boot" if run.not_started else "node" if failure else None
    return {
        "by": by,
        "cause": cause(job, run, 128 + stops[0] if stops else failure.code if failure else 0),
        "label": failure.label if failure else None,
        "signal": stops[0] if stops else None,
    }


def events_of(job: SimulatedJob, node: int) -> List[Path]:
    """The event file of a node; none for a node that ended before it could write one."""
    return sorted(Path(job.log_dir(node)).glob("*-events.jsonl"))


def _phases(job: SimulatedJob, node: int) -> Iterator[Event]:
    """The phases that the node's last start has recorded; none for a node that ended before it could."""
    for file in events_of(job, node):
        phases: List[Event] = []
        for event in read_events(file.read_text(encoding="utf-8", errors="replace"), str).events:
            if event["kind"] == "phase-start" and event["phase"] == "job":
                phases.clear()
            elif event["kind"] == "phase-end":
                phases.append(event)
        yield from phases


def cause(job: SimulatedJob, run: RunResult, code: int) -> str:
    """The exit code in words: what the node that failed first has left about it."""
    if code == 0:
        return "success"
    failure = run.first_failure
    if failure is None:
        return str(run.not_started) if run.not_started else f"stopped by {signal_name(code - 128)}"
    node = int(failure.label.split()[1])
    for file in Path(job.log_dir(node)).glob("*-failure.json"):
        summary: str = json.loads(file.read_text(encoding="utf-8"))["summary"]
        headline, *details = summary.split("\n")
        items = [line[4:] for line in details if line.startswith("  - ")]
        first = f": {items[0]}" if items else ""
        more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
        return f"{failure.label}: {headline.rstrip(':')}{first}{more}"
    return f"{failure.label} {failure.how()}"
