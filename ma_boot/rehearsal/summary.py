"""How a rehearsal ended: its exit code, the cause, and the summary of all phases."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ma_boot.errors import signal_name
from ma_boot.rehearsal.platform import SimulatedJob
from ma_boot.reporting import Cause, RunResult, below, order
from ma_boot.reporting.timeline import Event, job_cause, read_events

NOT_AS_EXPECTED = 1  # exit code of a rehearsal whose faults, or what came of them, are not as expected
LONGEST_DETAIL = 120  # characters
_WORST_FIRST = ("failed", "stopped", "done")


def job_exit_code(run: RunResult, stops: Sequence[int]) -> int:
    """The exit code of the job: that of a stop signal, or of the node that failed first."""
    if stops:
        return 128 + stops[0]
    if run.not_started is not None:
        return int(run.not_started.exit_code)
    return run.first_failure.code if run.first_failure else 0


def rehearsal_end(code: int, why: str, wrong: Sequence[str]) -> Tuple[int, str]:
    """The exit code of the rehearsal and its cause: those of the job, unless something is `wrong`."""
    if not wrong:
        return code, why
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return NOT_AS_EXPECTED, f"not as expected: {wrong[0]}{more}; the job's own exit code is {code}"


def summary_lines(
    job: SimulatedJob,
    run: RunResult,
    why: str,
    seconds: float,
    obs_root: Optional[str],
    page: Optional[str],
    end: Tuple[int, str],
) -> List[str]:
    """At most 15 lines; for each phase the duration on the slowest node, and the detail of the worst one.

    Of several that failed, it is the node that failed first. `why` is the cause of the job's exit code, `end`
    the exit code of the rehearsal with its cause."""
    shown: Dict[str, Event] = {}
    failure = run.first_failure
    first = int(failure.label.split()[1]) if failure else 0
    for node in sorted(range(job.nodes), key=lambda node: node != first):
        for phase in _phases(job, node):
            known = shown.setdefault(phase["phase"], phase)
            worst = min(known, phase, key=lambda p: _WORST_FIRST.index(p["outcome"]))
            shown[phase["phase"]] = {**worst, "seconds": max(known["seconds"], phase["seconds"])}
    lines = [f"rehearsal of {job.name}: {job.shape}, {seconds:.1f} s"]
    lines += [
        f"  {name:12} {phase['outcome']:8} {phase['seconds']:6.1f} s  "
        f"{_short(below(phase['detail'], why))}".rstrip()
        for name, phase in shown.items()
    ]
    if obs_root:
        lines.append(f"obs:// is in {obs_root}")
    lines.append(f"logs of each process: {job.root}/node-*/home/ma-user/modelarts/log")
    if page is not None:
        lines.append(f"page: {page}")
    return [*lines, f"exit code {end[0]}: {end[1]}"]


def _short(detail: str) -> str:
    """A detail of a phase, at most as long as fits a line."""
    return detail if len(detail) <= LONGEST_DETAIL else f"{detail[: LONGEST_DETAIL - 1].rstrip()}…"


def job_end_event(
    job: SimulatedJob, run: RunResult, stops: Sequence[int], rehearsal_code: int
) -> Dict[str, Any]:
    """The fields of the event `job-end`."""
    failure, code = run.first_failure, job_exit_code(run, stops)
    return {
        "exit_code": code,
        "by": "signal" if stops else "ma_boot" if run.not_started else "node" if failure else None,
        "cause": cause(job, run, code),
        "label": failure.label if failure else None,
        "signal": stops[0] if stops else None,
        "rehearsal_exit_code": rehearsal_code,
    }


def events_of(job: SimulatedJob, node: int) -> List[Path]:
    """The event files of a node; none if it ended before it could write one."""
    return sorted(Path(job.log_dir(node)).glob("*-events.jsonl"))


def _phases(job: SimulatedJob, node: int) -> Iterator[Event]:
    """The phases that the last start of a node has recorded."""
    for text in _texts(events_of(job, node)):
        phases: List[Event] = []
        for event in read_events(text, str).events:
            if event["kind"] == "phase-start" and event["phase"] == "job":
                phases.clear()
            elif event["kind"] == "phase-end":
                phases.append(event)
        yield from phases


def cause(job: SimulatedJob, run: RunResult, code: int) -> str:
    """The cause of an exit code in one line: as the nodes have named it, else from what one has reported."""
    if code == 0:
        return "success"
    failure = run.first_failure
    named = min(_named_causes(job), key=order, default=None) if failure is not None else None
    if named is not None and named.rank is not None:
        return str(named)
    if failure is None:
        return str(run.not_started) if run.not_started else f"stopped by {signal_name(code - 128)}"
    node = int(failure.label.split()[1])
    for summary in _failures(job, node):
        headline, *details = summary.split("\n")
        items = [line[4:] for line in details if line.startswith("  - ")]
        first = f": {items[0]}" if items else ""
        more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
        return f"{failure.label}: {headline.rstrip(':')}{first}{more}"
    return f"{failure.label} {failure.how()}"


def _named_causes(job: SimulatedJob) -> Iterator[Cause]:
    """The cause that the last start of each node has named."""
    for node in range(job.nodes):
        events = [event for text in _texts(events_of(job, node)) for event in read_events(text, str).events]
        named = [job_cause(event) for event in events if event["kind"] == "job cause"]
        yield from filter(None, named[-1:])


def _failures(job: SimulatedJob, node: int) -> Iterator[str]:
    """What a node has said of its failure; nothing where its disk was full."""
    for text in _texts(Path(job.log_dir(node)).glob("*-failure.json")):
        try:
            yield str(json.loads(text)["summary"])
        except (KeyError, TypeError, ValueError):
            continue


def _texts(files: Iterable[Path]) -> Iterator[str]:
    """The texts of those files that are there and can be read: the training may have removed them."""
    for file in files:
        with suppress(OSError):
            yield file.read_text(encoding="utf-8", errors="replace")
