"""Useful node time of a job, and the use of the rest. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ma_boot.report.timeline.job_timeline import BootRun, ProcessSpan, Timeline

COUNTED, LOST, OPEN = "counted", "lost steps", "not ended"
START, WAITING, INPUTS, RESTORE = "start", "waiting", "inputs", "restore"
RESTARTS, END = "restarts", "end"
PARTS = (COUNTED, START, WAITING, INPUTS, RESTORE, LOST, OPEN, RESTARTS, END)
_OF_PHASES = {
    "rank table": WAITING,
    "peers": WAITING,
    "inputs": INPUTS,
    "checkpoints": RESTORE,
    "compile cache": RESTORE,
}
_NOTHING = "–"  # no step was restored, as the incident has it


class AttemptSpan(NamedTuple):
    """Processes of a node that ran together: their first start, first failure and last end (so far)."""

    start: float
    failed: float
    end: float
    ended: bool


def time_spent(timeline: Timeline) -> dict[str, float]:
    """Returns the seconds of all nodes by their use; their sum is the paid time, as far as events show it.

    Useful (`COUNTED`) are the steps in the final state: all of an attempt that succeeded, else those up to
    the checkpoint that the next attempt resumed from, or up to the last complete one. Without checkpoints
    only an attempt that succeeded is useful. The last steps of processes without an event of their end are
    `OPEN`.
    """
    spent = dict.fromkeys(PARTS, 0.0)
    for node in timeline.nodes:
        for start, end, part in _of_node(node.runs):
            spent[part] += end - start
    return spent


def _of_node(runs: Sequence[BootRun]) -> Iterator[tuple[float, float, str]]:
    """Yields the time of a node in pieces without gaps, each with its use."""
    at = runs[0].start
    for number, run in enumerate(runs):
        later = runs[number + 1 :]
        for start, end, part in [(at, run.start, RESTARTS), *_of_run(run, later)]:
            if end > at:
                yield max(start, at), end, part
                at = end


def _of_run(run: BootRun, later: Sequence[BootRun]) -> Iterator[tuple[float, float, str]]:
    at, before = run.start, START
    attempts = list(_attempts(run))
    for number, attempt in enumerate(attempts):
        yield from _with_phases(run, at, attempt.start, before)
        last = number == len(attempts) - 1
        counted = _counted_until(run, attempt, last and not later, later if last else ())
        before = END if last else RESTARTS
        yield attempt.start, counted, COUNTED
        is_over = attempt.ended or run.exit_code is not None or not last or bool(later)
        yield counted, attempt.failed, LOST if is_over else OPEN
        yield attempt.failed, attempt.end, before
        at = attempt.end
    yield from _with_phases(run, at, run.end, before)


def _with_phases(
    run: BootRun, start: float, end: float, otherwise: str
) -> Iterator[tuple[float, float, str]]:
    """Yields the time between attempts by the phases in it; where two overlap, by the earlier one."""
    for phase in sorted(run.phases, key=lambda phase: phase.start):
        until = min(end, run.end if phase.end is None else phase.end)
        if phase.name in _OF_PHASES and until > max(start, phase.start):
            yield start, phase.start, otherwise
            yield max(start, phase.start), until, _OF_PHASES[phase.name]
            start = until
    yield start, end, otherwise


def _attempts(run: BootRun) -> Iterator[AttemptSpan]:
    attempts: list[list[ProcessSpan]] = []
    end = -1.0
    for process in sorted(run.processes, key=lambda process: process.start):
        if not attempts or process.start >= end:
            attempts.append([])
        attempts[-1].append(process)
        end = max(end, run.end if process.end is None else process.end)
    for processes in attempts:
        ends = [run.end if process.end is None else process.end for process in processes]
        failed = [end for end, process in zip(ends, processes) if process.failed]
        ended = bool(failed) or all(process.end is not None for process in processes)
        yield AttemptSpan(processes[0].start, min(failed, default=max(ends)), max(ends), ended)


def _counted_until(run: BootRun, attempt: AttemptSpan, is_final: bool, later: Sequence[BootRun]) -> float:
    """Returns the end of the useful part of an attempt."""
    if is_final and run.exit_code == 0:
        return attempt.failed
    step = run.whole if is_final else _restored_after(run, attempt, later)
    saved = [at for at, saved in run.saves if saved == step and attempt.start <= at]
    return min(max(saved), attempt.failed) if saved and step else attempt.start


def _restored_after(run: BootRun, attempt: AttemptSpan, later: Sequence[BootRun]) -> str | None:
    """Returns the step that the next attempt resumed from; None without one."""
    incidents = [*run.incidents, *(incident for after in later for incident in after.incidents)]
    steps = [i.label for i in incidents if i.kind == "restored" and i.at >= attempt.end]
    return steps[0] if steps and steps[0] != _NOTHING else None
