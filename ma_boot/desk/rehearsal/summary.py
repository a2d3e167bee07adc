"""The end of a rehearsal: exit code, cause, summary of all phases, verdicts on its faults."""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.job_run import FinishedJob
from ma_boot.desk.rehearsal.kept import PAGE
from ma_boot.desk.rehearsal.node_specs import node_mapping
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.desk.rehearsal.setup import Setup
from ma_boot.errors import ExitCode, signal_name
from ma_boot.node.boot.launch_phase import working_directory
from ma_boot.redact import masked
from ma_boot.report.cause import Cause, order
from ma_boot.report.doubt import Doubt
from ma_boot.report.exit_report import DOUBTFUL_EXIT_CODE, EXIT_CODE
from ma_boot.report.result import RunResult
from ma_boot.report.timeline.boot_run import doubt_in, job_cause
from ma_boot.report.timeline.events import Event, read_events, whole, words
from ma_boot.wording import Message, counted, duration, size
from path_mapping.mapping.routes import Route

NOT_AS_EXPECTED = 1  # exit code of a rehearsal whose faults, or what came of them, are not as expected
FILE = "verdicts.json"  # in the directory of the rehearsal
COLUMNS = 88  # leaves room for the prefix of each line on a terminal of 100 columns


def job_exit_code(run: RunResult, stops: Sequence[int]) -> int:
    """The exit code of the job: by a stop signal, or by the node that failed first."""
    if stops:
        return 128 + stops[0]
    if run.not_started is not None:
        return int(run.not_started.exit_code)
    if run.first_failure is not None:
        return run.first_failure.code
    return int(ExitCode.SUCCESS if run.succeeded else ExitCode.HUNG)  # else SIGKILL did not end a node


def rehearsal_end(code: int, why: str, wrong: Sequence[str]) -> tuple[int, str]:
    """The exit code of the rehearsal and its cause: as of the job, unless something is `wrong`."""
    if not wrong:
        return code, why
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return NOT_AS_EXPECTED, f"not as expected: {wrong[0]}{more}; the job's own exit code is {code}"


def shown_path(path: str, cwd: str) -> str:
    """The path as a reader in the directory `cwd` needs it: relative if it is below it."""
    return os.path.relpath(path, cwd) if Path(cwd) in Path(path).parents else path


def summary_lines(
    place: str, total: str, with_page: bool, exit_code: int, reason: str, is_doubtful: bool = False
) -> list[str]:
    """The last lines: the totals, after a failure or a doubt where the logs are, the page, the exit code.

    `place` is the directory of the rehearsal; `is_doubtful` is about a success.
    """
    logs = [f"logs: {place}/node-*/home/ma-user/modelarts/log"] if exit_code or is_doubtful else []
    page = [f"page: {place}/{PAGE}"] if with_page else []
    end = DOUBTFUL_EXIT_CODE if is_doubtful else EXIT_CODE
    return [total, *logs, *page, end.format(exit_code) + reason]


def totals(job: SimulatedJob, seconds: float) -> str:
    """Summarizes in one line: ends of all processes, the checkpoint resumed from, and uploads."""
    events = [(node, event) for node in range(job.nodes) for event in _last_start(job, node)]
    ends = {(node, words(event, "label")): event for node, event in events if event["kind"] == "exit"}
    stopped = sum(event.get("stopped") is True for event in ends.values())
    failed = sum(event.get("code") != 0 and event.get("stopped") is not True for event in ends.values())
    counts = {"ended with 0": len(ends) - failed - stopped, "failed": failed, "stopped": stopped}
    of_processes = counted(len(ends), "process", "processes")
    shown = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    text = f"{job.shape} in {duration(seconds)}: {of_processes}"
    text += f", {shown}" if failed + stopped else " ended with 0" if ends else ""
    resumed = next((words(event, "step") for _, event in events if event["kind"] == "restored"), "")
    sent = [event for _, event in events if _is_sent(event)]
    files, size_ = (sum(whole(event, name, 10**18) or 0 for event in sent) for name in ("files", "bytes"))
    return (
        text
        + (f"; resumed from step {resumed}" if resumed else "")
        + (f"; outputs: {counted(files, 'file')}, {size(size_)}" if sent else "")
    )


def _is_sent(event: Event) -> bool:
    """Returns whether an event counts files of an output: of a mapping, a checkpoint, or the job form."""
    kind, direction = event["kind"], event.get("direction")
    return kind == "checkpoint" or (kind, direction) in (("transfer", "upload"), ("channel", "output"))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def job_end_event(run: RunResult, stops: Sequence[int], why: str, rehearsal_code: int) -> dict[str, Any]:
    """The fields of the event `job-end`; `why` is the cause of the job's exit code."""
    failure = run.first_failure
    return {
        "exit_code": job_exit_code(run, stops),
        "by": "signal" if stops else "ma_boot" if run.not_started else "node" if failure else None,
        "cause": why,
        "label": failure.label if failure else None,
        "signal": stops[0] if stops else None,
        "rehearsal_exit_code": rehearsal_code,
    }


def events_of(job: SimulatedJob, node: int) -> list[Path]:
    """The event files of a node; none if it ended before it could write one."""
    return sorted(Path(job.log_dir(node)).glob("*-events.jsonl"))


def _events(job: SimulatedJob, node: int) -> Iterator[Event]:
    """The events of a node, in all its files."""
    for text in _texts(events_of(job, node)):
        yield from read_events(text, str).events


def _last_start(job: SimulatedJob, node: int) -> list[Event]:
    """The events of the last start of a node."""
    last: list[Event] = []
    for event in _events(job, node):
        if event["kind"] == "phase-start" and event.get("phase") == "job":
            last.clear()
        last.append(event)
    return last


def cause(job: SimulatedJob, run: RunResult, code: int) -> str:
    """The cause of an exit code in one line: as the nodes have named it, else from what one has reported."""
    if code == 0:
        return str(doubt_in_job(job) or "success")
    failure = run.first_failure
    named = min(_named_causes(job), key=order, default=None) if failure is not None else None
    if named is not None and (named.rank is not None or named.place or named.hint):
        return str(named)
    if failure is None:
        by = signal_name(code - 128)
        return str(run.not_started) if run.not_started else Message.of("stopped by {}", by)
    node = int(failure.label.split()[1])
    for summary in _failures(job, node):
        headline, *details = summary.split("\n")
        items = [line[4:] for line in details if line.startswith("  - ")]
        first = f": {items[0]}" if items else ""
        more = f" (and {len(items) - 1} more)" if len(items) > 1 else ""
        return f"{failure.label}: {headline.rstrip(':')}{first}{more}"
    return Message.of("{} {}", failure.label, failure.how())


def doubt_in_job(job: SimulatedJob) -> Doubt | None:
    """The doubt about the success of the first node that has one in its last start."""
    ends = (event for node in range(job.nodes) for event in _last_start(job, node) if event["kind"] == "end")
    return next(filter(None, map(doubt_in, ends)), None)


def _named_causes(job: SimulatedJob) -> Iterator[Cause]:
    """The cause that the last start of each node has named."""
    for node in range(job.nodes):
        named = [job_cause(event) for event in _events(job, node) if event["kind"] == "job cause"]
        yield from filter(None, named[-1:])


def _failures(job: SimulatedJob, node: int) -> Iterator[str]:
    """Reads the failure files of the nodes; a node with a full disk has none."""
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


@dataclass(frozen=True)
class FaultVerdict:
    """The verdict on one fault; the fields are those of `verdicts.json`.

    `seconds` passed between the fault and the end of the job, None if the fault was not injected. `files` and
    `lost` count output files, None if unknown. `wrong` lists deviations: a fault that was not injected, and
    processes that outlived the job.
    """

    fault: str
    came: bool
    code: int
    cause: str
    seconds: float | None
    files: int | None
    lost: int | None
    wrong: tuple[str, ...]

    def lines(self) -> list[str]:
        """The verdict as the rehearsal prints it."""
        story = [f"NOT as expected: {problem}" for problem in self.wrong]
        if self.seconds is not None:
            ended = f"the job ended {self.seconds:.1f} s after it with exit code {self.code}"
            story = [ended, f"the cause: {self.cause}", self._outputs(), *story]
        return [f"fault: {self.fault}", *(f"  {_short(line, COLUMNS)}" for line in story)]

    def _outputs(self) -> str:
        if self.files is None or self.lost is None:
            return "outputs: not checked"
        if not self.files:
            return "outputs: no files"
        if self.lost:
            return f"outputs: {self.lost} of {self.files} files are not in OBS"
        return f"outputs: all {self.files} files are in OBS"


def verdicts_of(setup: Setup, finished: FinishedJob, code: int) -> list[FaultVerdict]:
    """A verdict on each fault of a job that has ended with an exit code."""
    if not setup.rehearsal.faults:
        return []
    why = cause(setup.job, finished.result, code)
    left = ", ".join(map(str, finished.left))
    outlived = (f"processes still running at the end: {left}",) if left else ()
    files, lost = _output_files(setup) or (None, None)

    injected = finished.injected.injections()

    def verdict(fault: Fault) -> FaultVerdict:
        injection = injected.get(fault)
        problem = injection.problem if injection else f"the fault was not injected: {finished.missed[fault]}"
        return FaultVerdict(
            fault=str(fault),
            came=problem is None,
            code=code,
            cause=why,
            seconds=max(0.0, finished.ended - injection.at) if injection else None,
            files=files,
            lost=lost,
            wrong=((problem,) if problem else ()) + outlived,
        )

    return [verdict(fault) for fault in setup.rehearsal.faults]


def _output_files(setup: Setup) -> tuple[int, int] | None:
    """The outputs of all nodes, by the mapping and the job form, as `compared_outputs` counts them.

    None where OBS is not a directory here, and where an output was on a small disk, which no longer exists.
    """
    obs_root = setup.request.transfers.obs_root
    if obs_root is None:
        return None
    nodes, root_of = range(setup.job.nodes), setup.job.sandbox_root
    places = [place for node in nodes for place in _outputs(setup, node)]
    disks = [root_of(node) + path for node in nodes for path in setup.rehearsal.small_disks(node)]
    if any(f"{route.path(base)}/".startswith(f"{disk}/") for route, base in places for disk in disks):
        return None
    return compared_outputs(places, Path(obs_root))


def _outputs(setup: Setup, node: int) -> Iterator[tuple[Route, Path]]:
    """A node's output routes, each with the directory to which its local path is relative."""
    job, launch = setup.job, setup.request.launch
    mapping, root = node_mapping(setup, node), job.sandbox_root(node)
    base = working_directory(launch, setup.request.command, job.home(node), job.job_dir(node))
    plain = [route for route in mapping.outputs if route.more is None] if mapping else []  # not checkpoints
    for route in plain:
        local = root + route.local if os.path.isabs(route.local) else route.local
        yield route._replace(local=local), Path(base)
    for channel in setup.rehearsal.channels:
        if not channel.is_input:
            yield channel.route(setup.job, node), Path(root)


def compared_outputs(places: Sequence[tuple[Route, Path]], obs_root: Path) -> tuple[int, int] | None:
    """Counts the files at the output paths of all nodes, and those that OBS lacks or has with other content.

    `places` are routes, each with the directory to which its local path is relative; the directory `obs_root`
    stands for OBS. None if there are no outputs, or if patterns select which files to upload.
    """
    if not places or any(route.include or route.exclude for route, _ in places):
        return None
    count = lost = 0
    for route, base in places:
        local = route.path(base)
        for path in _files(local):
            count += 1
            below = "" if path == local else path.relative_to(local).as_posix()
            stored = obs_root / route.remote.bucket / route.remote.key / below
            if not stored.is_file() or not filecmp.cmp(stored, path, shallow=False):
                lost += 1
    return count, lost


def _files(local: Path) -> list[Path]:
    if local.is_file():
        return [local]
    return [Path(directory, name) for directory, _, names in os.walk(local) for name in names]


def write_verdicts(root: str, verdicts: Sequence[FaultVerdict]) -> None:
    """Writes the verdicts into the directory of the rehearsal, without secrets.

    Raises `OSError` if it cannot.
    """
    text = json.dumps(masked([asdict(verdict) for verdict in verdicts]), indent=2, ensure_ascii=False)
    Path(root, FILE).write_text(text + "\n", encoding="utf-8")
