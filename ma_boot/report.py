"""The verdict: one exit code, one screen and one file that say how the job ended here, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union

from ma_boot.errors import BootError, CannotCreate, ExitCode, OutputLost, Stopped, signal_name
from ma_boot.job import JobEnvironment
from ma_boot.journal import PhaseRecord
from ma_boot.output import keep_earlier
from ma_boot.rank_file import write_atomically
from ma_boot.supervise import RunResult, WorkerExit

SUMMARY_CHARACTERS = 1024  # what the platforms that show a failure's summary show of it


@dataclass(frozen=True)
class Ending:
    """All that decides about the end; each part is None where it did not happen.

    `stopped_by` is the first stop signal, `error` what ended the boot before or at the launch, `run` how
    the processes ended, `lost` what did not get home.
    """

    job: Optional[JobEnvironment]
    stopped_by: Optional[int]
    error: Optional[BootError]
    run: Optional[RunResult]
    lost: Optional[OutputLost]

    @classmethod
    def of(
        cls,
        job: Optional[JobEnvironment],
        stops: Sequence[int],
        error: Union[BootError, Stopped, None],
        run: Optional[RunResult],
        lost: Optional[OutputLost],
    ) -> Ending:
        """The ending out of what the story gathered."""
        ours = error if isinstance(error, BootError) else run.not_started if run else None
        return cls(job, stops[0] if stops else None, ours, run, lost)


def exit_code(ending: Ending) -> int:
    """The exit code by the design's order: stopped by a signal, first failing process, upload, 0."""
    if ending.stopped_by is not None:
        return 128 + ending.stopped_by
    if ending.error is not None:
        return int(ending.error.exit_code)
    failure = ending.run.first_failure if ending.run else None
    if failure is not None:
        return failure.code
    if ending.lost is not None:
        return int(ending.lost.exit_code)
    return int(ExitCode.SUCCESS)


def cause(ending: Ending) -> str:
    """Whose fault the exit code is, in words; the first line is a headline."""
    failure = ending.run.first_failure if ending.run else None
    if ending.stopped_by is not None:
        text = f"stopped by {signal_name(ending.stopped_by)}"
        return text + (f"; before that, {failure.label} {failure.how()}" if failure else "")
    if ending.error is not None:
        return str(ending.error)
    if failure is not None:
        return f"{failure.label} {failure.how()} after {failure.seconds:.1f} s (the training's own code)"
    if ending.lost is not None:
        return str(ending.lost)
    return "success"


def report_lines(ending: Ending, phases: Sequence[PhaseRecord]) -> List[str]:
    """The last screen of a node: the phases, then what ended it, the cause last."""
    lines = [f"{phase.name:12} {phase.outcome:8} {phase.seconds:8.1f} s  {phase.detail}" for phase in phases]
    failure = ending.run.first_failure if ending.run else None
    if failure is not None:
        lines += [f"last lines of {failure.label} (all of them: {failure.log_file}):"]
        lines += [f"  | {line}" for line in failure.tail]
        lines += [_other(ended) for ended in ending.run.exits if ended is not failure] if ending.run else []
    if ending.job is not None:
        lines.append(f"logs: {ending.job.log_dir}")
    if ending.lost is not None and cause(ending) != str(ending.lost):
        lines += str(ending.lost).split("\n")
    headline, *details = cause(ending).split("\n")
    return [*lines, f"exit code {exit_code(ending)}: {headline}", *details]


def _other(ended: WorkerExit) -> str:
    by_us = ": stopped by ma_boot" if ended.stopped else ""
    return f"{ended.label} {ended.how()} after {ended.seconds:.1f} s{by_us}"


def failure_document(ending: Ending) -> Dict[str, Any]:
    """The failure for programs; `summary` has at most 1,024 characters."""
    failure = ending.run.first_failure if ending.run else None
    return {
        "exit_code": exit_code(ending),
        "summary": cause(ending)[:SUMMARY_CHARACTERS],
        "first_failure": _as_json(failure) if failure else None,
        "processes": [_as_json(ended) for ended in ending.run.exits] if ending.run else [],
        "output_lost": str(ending.lost) if ending.lost else None,
    }


def _as_json(ended: WorkerExit) -> Dict[str, Any]:
    return {**ended.__dict__, "tail": list(ended.tail)}


def write_failure(ending: Ending) -> None:
    """Leaves `<job>-node-<i>-failure.json` in the log directory after a failure; an earlier one is kept.

    A log directory that cannot be written is no second failure: the screen has said it all.
    """
    if ending.job is None or exit_code(ending) == ExitCode.SUCCESS:
        return
    path = Path(ending.job.log_dir, f"{ending.job.name}-node-{ending.job.node_rank}-failure.json")
    try:
        keep_earlier(path)
        write_atomically(path, json.dumps(failure_document(ending), indent=2, ensure_ascii=False) + "\n")
    except (OSError, CannotCreate):
        return
