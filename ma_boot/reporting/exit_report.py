"""The verdict: one exit code, one screen and one file that say how the job ended here, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from ma_boot.errors import BootError, CannotCreate, ExitCode, OutputLost, Stopped, signal_name
from ma_boot.modelarts import JobEnvironment, write_atomically
from ma_boot.reporting.explain import last_exception, last_words, sentence
from ma_boot.reporting.hints import advice_for
from ma_boot.reporting.journal import PhaseRecord
from ma_boot.reporting.mpirun_output import failed_rank, words_of_failed_rank
from ma_boot.reporting.result import RunResult, WorkerExit

MOST_OTHERS = 8  # a screen holds no more
LONGEST_LINE = 300
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


class Verdict(NamedTuple):
    """The exit code; by whom it is: `signal`, `ma_boot`, `training` or `output`, None after a success; and
    why, in words, of which the first line is a headline."""

    code: int
    by: Optional[str]
    cause: str


def verdict(ending: Ending) -> Verdict:
    """By the design's order: stopped by a signal, first failing process, upload, 0.

    Processes that were stopped since they hung give 124, the code of `timeout`.
    """
    run, failure = ending.run, ending.run.first_failure if ending.run else None
    if ending.stopped_by is not None:
        text = f"stopped by {signal_name(ending.stopped_by)}"
        text += f"; before that, {failure.label} {failure.how()}" if failure else ""
        return Verdict(128 + ending.stopped_by, "signal", text)
    if ending.error is not None:
        return Verdict(int(ending.error.exit_code), "ma_boot", str(ending.error))
    if failure is not None:
        return Verdict(failure.code, "training", _said(failure))
    if run is not None and run.hung:
        text = f"{', '.join(run.hung)} hung, and ma_boot stopped the run (--hang-action stop)"
        return Verdict(int(ExitCode.HUNG), "ma_boot", text)
    if run is not None and run.left:
        return Verdict(int(ExitCode.HUNG), "ma_boot", f"SIGKILL did not end {', '.join(run.left)}")
    if ending.lost is not None:
        return Verdict(int(ending.lost.exit_code), "output", str(ending.lost))
    return Verdict(int(ExitCode.SUCCESS), None, "success")


def _said(failure: WorkerExit) -> str:
    """How the first failing process ended."""
    why, rank = sentence(failure), failed_rank(failure.output)
    who = failure.label if rank is None else f"rank {rank} under {failure.label}"
    text = f"{who} {failure.how()} after {failure.seconds:.1f} s (the training's own code)"
    return f"{text}: {why}" if why else text


def exit_code(ending: Ending) -> int:
    """The exit code of the verdict."""
    return verdict(ending).code


def end_event(ending: Ending) -> Dict[str, Any]:
    """The fields of a node's last event: the exit code, whose it is, and why."""
    failure = ending.run.first_failure if ending.run else None
    code, by, cause = verdict(ending)
    return {
        "exit_code": code,
        "by": by,
        "cause": cause,
        "label": failure.label if failure else None,
        "signal": ending.stopped_by,
    }


def report_lines(ending: Ending, phases: Sequence[PhaseRecord], page: Optional[str] = None) -> List[str]:
    """The last screen of a node: the phases, the failing process, the others, and last the cause.

    `page` is the file that shows the same as a picture.
    """
    lines = [f"{phase.name:12} {phase.outcome:8} {phase.seconds:8.1f} s  {phase.detail}" for phase in phases]
    run = ending.run
    if run is not None:
        lines += _failure_lines(ending, run.first_failure) if run.first_failure is not None else []
        lines += _lines_of_others(run)
    lines += [
        f"{ended.label}: {ended.log_lost} bytes are not in {ended.log_file}"
        for ended in (run.exits if run else ())
        if ended.log_lost
    ]
    if ending.job is not None:
        lines.append(f"logs: {ending.job.log_dir}")
    if page is not None:
        lines.append(f"page: {page}")
    code, by, cause = verdict(ending)
    if ending.lost is not None and by != "output":
        lines += str(ending.lost).split("\n")
    headline, *details = cause.split("\n")
    return [*lines, f"exit code {code}: {headline}", *details]


def _failure_lines(ending: Ending, failure: WorkerExit) -> List[str]:
    """The failing process, and its last words."""
    host = f", host {ending.job.host}" if ending.job else ""
    device = "" if failure.device is None else f", device {failure.device}"
    lines = [f"the cause: {failure.label}{device}{host}, pid {failure.pid}; its log: {failure.log_file}"]
    output = words_of_failed_rank(failure.output)
    lines += [f"  | {line[:LONGEST_LINE]}" for line in last_words(output)]
    return lines + [f"advice: {text}" for text in advice_for(output)]


def _lines_of_others(run: RunResult) -> List[str]:
    """The processes besides the failing one, a line each: first those with an exception in their output.

    A rank that raised may end after another one, which lost it as a peer, or may be stopped before it ends:
    then its exception is the cause. Where no process failed by itself only such ones are of interest.
    """
    ends = [(ended, _exception(ended)) for ended in run.exits if ended is not run.first_failure]
    shown = sorted((end for end in ends if run.first_failure or end[1]), key=lambda end: end[1] is None)
    lines = [
        f"{ended.label} {ended.how()} after {ended.seconds:.1f} s: {run.part(ended)}"
        + (f"; its last exception: {exception[:LONGEST_LINE]}" if exception else "")
        for ended, exception in shown[:MOST_OTHERS]
    ]
    if len(shown) > MOST_OTHERS:
        lines.append(f"and {len(shown) - MOST_OTHERS} others, all of them in the failure file")
    return lines


def _exception(ended: WorkerExit) -> Optional[str]:
    """The exception that a process which did not end well printed last."""
    return last_exception(words_of_failed_rank(ended.output)) if ended.code else None


def failure_document(ending: Ending) -> Dict[str, Any]:
    """The failure for programs; `summary` has at most 1,024 characters."""
    run = ending.run
    failure = run.first_failure if run else None
    output = words_of_failed_rank(failure.output) if failure else ""
    code, _, cause = verdict(ending)
    return {
        "exit_code": code,
        "summary": cause[:SUMMARY_CHARACTERS],
        "host": ending.job.host if ending.job else None,
        "first_failure": _as_json(run, failure) if run and failure else None,
        "last_words": last_words(output),
        "advice": advice_for(output),
        "processes": [_as_json(run, ended) for ended in run.exits] if run else [],
        "output_lost": str(ending.lost) if ending.lost else None,
    }


def _as_json(run: RunResult, ended: WorkerExit) -> Dict[str, Any]:
    values = {name: value for name, value in ended.__dict__.items() if name != "output"}
    return {**values, "part": run.part(ended), "exception": _exception(ended)}


def write_failure(ending: Ending) -> Optional[str]:
    """Leaves `<job>-node-<i>-failure.json` in the log directory after a failure, and returns its path.

    One that the training wrote (`MABOOT_FAILURE_FILE`) stays; ours is put beside it. A log directory that
    cannot be written is no second failure: the screen has said it all.
    """
    if ending.job is None or exit_code(ending) == ExitCode.SUCCESS:
        return None
    path = Path(ending.job.failure_file)
    if path.exists():
        path = path.with_name(path.stem + "-ma_boot.json")
    try:
        write_atomically(path, json.dumps(failure_document(ending), indent=2, ensure_ascii=False) + "\n")
    except (OSError, CannotCreate):
        return None
    return str(path)
