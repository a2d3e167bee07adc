"""Merges the event files of a job's nodes into one `Timeline`. Pure.

Files may be missing or torn. The steps: split each file into runs, drop runs before a long gap, put all times
relative to the job's start, decode each run, then decide on the outcome of the job.
"""

from __future__ import annotations

from collections.abc import Sequence

from ma_boot.errors import ExitCode
from ma_boot.report.cause import order
from ma_boot.report.doubt import Doubt
from ma_boot.report.job_ledger import JobLedger
from ma_boot.report.result import CAUSE, role_beside_cause
from ma_boot.report.timeline.all_starts import UNKNOWN_TIMES, PlatformTimes, all_starts
from ma_boot.report.timeline.boot_run import boot_run, incident_of
from ma_boot.report.timeline.events import Event, EventFile, Timed, clocked, whole, words
from ma_boot.report.timeline.job_timeline import (
    DOUBTFUL,
    UNKNOWN,
    BootRun,
    Incident,
    JobOutcome,
    NodeTimeline,
    ProcessSpan,
    Timeline,
)
from ma_boot.report.timeline.slow_ranks import slow_ranks

# Seconds; a run that ended so long before the next one belongs to an earlier use of the directory.
GAP_SECONDS = 1800.0
# Of a node, the latest ones.
MOST_RUNS = 20
NO_LEDGER = JobLedger()


def timeline_of(
    files: Sequence[EventFile], ledger: JobLedger = NO_LEDGER, platform: PlatformTimes = UNKNOWN_TIMES
) -> Timeline:
    """Merges event files: nodes by number, the runs of each oldest first.

    `ledger` has entries that the events may lack, `platform` the times of the starts by the platform.
    """
    by_node, of_job = _by_node(files)
    recent = {number: _recent(runs) for number, runs in sorted(by_node.items())}
    began, seconds = _extent([run for runs in recent.values() for run in runs], of_job)
    drawn = [
        _with_roles(NodeTimeline(number, tuple(boot_run(number, _since(began, run)) for run in runs)))
        for number, runs in recent.items()
    ]
    of_job = sorted(_since(began, of_job), key=lambda timed: timed[0])
    outcome = _with_named_cause(_outcome(drawn, of_job), drawn)
    rehearsal = next((event for _, event in of_job if event["kind"] == "rehearsal"), {})
    everything = [event for file in files for event in file.events]
    started = [event for event in everything if event["kind"] == "job"]
    counts = [whole(event, "nodes", 100_000) for event in started]
    known = {entry.key: entry for node in drawn for run in node.runs for entry in run.ledger}
    known.update((entry.key, entry) for entry in ledger.entries)
    incidents = [*(incident_of(at, None, event) for at, event in of_job), *_slow_ranks(drawn, seconds)]
    return Timeline(
        job=next(iter(job_names(files)), ""),
        began=began,
        seconds=seconds,
        expected_nodes=next(filter(None, counts), None),
        nodes=tuple(_with_cause(node, outcome) for node in drawn),
        incidents=tuple(filter(None, incidents))[-200:],
        outcome=outcome,
        earlier_runs=sum(len(runs) - len(recent[number]) for number, runs in by_node.items()),
        unreadable=sum(file.unreadable for file in files),
        command=words(rehearsal, "command", 4000),
        boot_command=words(rehearsal, "boot_command", 4000),
        starts=all_starts(JobLedger.of(known.values()), platform),
        schedules=max((whole(event, "schedule_count", 100_000) or 1 for event in started), default=1),
    )


def _by_node(files: Sequence[EventFile]) -> tuple[dict[int, list[Timed]], list[tuple[float, Event]]]:
    """Returns the runs of each node, and the events of the whole job, which name no node."""
    by_node: dict[int, list[Timed]] = {}
    of_job: list[tuple[float, Event]] = []
    for file in files:
        by_number: dict[int | None, list[Event]] = {}
        for event in file.events:
            by_number.setdefault(whole(event, "node", 100_000), []).append(event)
        for node, own in by_number.items():
            if node is None:
                of_job += clocked(own)
            else:
                by_node.setdefault(node, []).extend(_split(own))
    return by_node, of_job


def _slow_ranks(nodes: Sequence[NodeTimeline], seconds: float) -> list[Incident]:
    """Returns the slow ranks of the whole job that no node has reported itself."""
    named = {(i.kind, i.label) for node in nodes for run in node.runs for i in run.incidents}
    return [slow for slow in slow_ranks(nodes, seconds) if (slow.kind, slow.label) not in named]


def job_names(files: Sequence[EventFile]) -> tuple[str, ...]:
    """Returns the names of the jobs that wrote these events, each once."""
    named = [words(event, "name", 200) for file in files for event in file.events if event["kind"] == "job"]
    return tuple(dict.fromkeys(filter(None, named)))


def _split(events: Sequence[Event]) -> list[Timed]:
    """Splits the events of one file where the boot command was run again in the same container."""
    parts: list[list[Event]] = [[]]
    for event in events:
        if event["kind"] == "phase-start" and event.get("phase") == "job" and parts[-1]:
            parts.append([])
        parts[-1].append(event)
    return [clocked(part) for part in parts if part]


def _recent(runs: list[Timed]) -> list[Timed]:
    """Returns the last run, and earlier ones without a long gap in between."""
    ordered = sorted(runs, key=lambda run: run[0][0])
    first = len(ordered) - 1
    while first and ordered[first][0][0] - _end(ordered[first - 1]) <= GAP_SECONDS:
        first -= 1
    return ordered[max(first, len(ordered) - MOST_RUNS) :]


def _end(run: Timed) -> float:
    return max(at for at, _ in run)


def _extent(runs: Sequence[Timed], of_job: Sequence[tuple[float, Event]]) -> tuple[float, float]:
    """Returns start and duration of the job; never 0 seconds, as times are drawn relative to it."""
    extents = [(run[0][0], _end(run)) for run in runs] or [(at, at) for at, _ in of_job]
    if not extents:
        return 0.0, 0.001
    began = min(start for start, _ in extents)
    return began, max(0.001, max(end for _, end in extents) - began)


def _since(began: float, events: Sequence[tuple[float, Event]]) -> Timed:
    return tuple((max(0.0, at - began), event) for at, event in events)


def _with_roles(node: NodeTimeline) -> NodeTimeline:
    """Sets the role of each process.

    Each attempt that was followed by another one has a cause of its own. The cause of the job is decided
    later.
    """
    last = len(node.runs) - 1
    runs = (
        _with_doubt(run._replace(processes=_roles_of_run(run.processes, over=number < last)))
        for number, run in enumerate(node.runs)
    )
    return node._replace(runs=tuple(runs))


def _roles_of_run(processes: Sequence[ProcessSpan], over: bool) -> tuple[ProcessSpan, ...]:
    """Sets the roles of the processes of a run; `over` means that another run followed."""
    attempts: dict[str, int] = {}
    numbered = []
    for process in processes:
        attempts[process.label] = attempts.get(process.label, 0) + 1
        numbered.append((attempts[process.label], process))
    last = max(attempts.values(), default=0)
    causes: dict[int, ProcessSpan] = {}
    alone = not any(process.failed for process in processes)  # all were stopped
    for attempt, process in numbered:
        earlier = over or attempt < last
        first = causes.get(attempt, process)
        if earlier and process.failed and (process.end or 0.0) <= (first.end or 0.0):
            causes[attempt] = process
    return tuple(
        process._replace(role=CAUSE if causes.get(attempt) is process else _role(process, alone))
        for attempt, process in numbered
    )


def _with_doubt(run: BootRun) -> BootRun:
    """Sets the role of the process whose success is doubtful."""
    if run.doubt is None:
        return run
    label = run.doubt.label
    last = max((at for at, process in enumerate(run.processes) if process.label == label), default=None)
    return run._replace(
        processes=tuple(
            process._replace(role=DOUBTFUL) if at == last and process.code == 0 else process
            for at, process in enumerate(run.processes)
        )
    )


def _role(process: ProcessSpan, alone: bool) -> str:
    return UNKNOWN if process.code is None else role_beside_cause(process.code, process.stopped, alone)


def _outcome(nodes: Sequence[NodeTimeline], of_job: Sequence[tuple[float, Event]]) -> JobOutcome:
    """Returns the end of the job: as recorded by the rehearsal, else that of the node that failed first."""
    # A node that was stopped by a signal is the last candidate: the platform stops all nodes after a failure.
    failed = [node for node in nodes if node.last.exit_code]
    outcome = JobOutcome(None, "", "")
    if failed:
        number, runs = min(failed, key=lambda node: (node.last.by == "signal", _failed_at(node.last)))
        run = runs[-1]
        first = _first_failure(run) if run.by in ("training", "signal") else None
        process = first and first._replace(role=CAUSE)
        outcome = JobOutcome(
            exit_code=run.exit_code,
            by=run.by,
            cause=run.cause,
            node=number,
            process=process,
            signal=run.signal,
            words=run.words,
        )
    elif nodes and all(node.last.exit_code == 0 for node in nodes):
        outcome = _success(nodes)
    job_end = next((event for _, event in reversed(of_job) if event["kind"] == "job-end"), {})
    code = whole(job_end, "exit_code", 255)
    if code is None or code == outcome.exit_code:
        return outcome
    by, cause = words(job_end, "by", 20), words(job_end, "cause", 3000)
    label = words(job_end, "label", 60)
    own = boot_run(None, tuple(of_job)).processes if by == "node" else ()
    process = next((process._replace(role=CAUSE) for process in own if process.label == label), None)
    return JobOutcome(code, by, cause, process=process, signal=whole(job_end, "signal", 64), label=label)


def _success(nodes: Sequence[NodeTimeline]) -> JobOutcome:
    """Returns the end of a job whose nodes all ended with 0; of several doubts, that of the first node."""
    for node in nodes:
        doubt = node.last.doubt
        if doubt is not None:
            known = (process for process in node.last.processes if process.role == DOUBTFUL)
            process = next(known, None) or _process_without_events(doubt)
            return JobOutcome(0, "", "", node=node.number, process=process, doubt=doubt)
    return JobOutcome(0, "", "")


def _process_without_events(doubt: Doubt) -> ProcessSpan:
    """Returns the process of a doubt that ma_boot has not started itself, for the end of its log."""
    return ProcessSpan(
        label=doubt.label,
        rank=doubt.rank,
        start=0.0,
        first_output=None,
        end=None,
        code=0,
        signal=None,
        stopped=False,
        oom="",
        log_file=doubt.log_file,
        role=DOUBTFUL,
    )


def _with_named_cause(outcome: JobOutcome, nodes: Sequence[NodeTimeline]) -> JobOutcome:
    """Adds the root cause that the nodes have named, of several the first in the nodes' own order."""
    named = min((node.last.job_cause for node in nodes if node.last.job_cause), key=order, default=None)
    if named is None or not outcome.exit_code:
        return outcome
    outcome = outcome._replace(named=named)
    if named.rank is None:
        return outcome
    processes = [process for node in nodes if node.number == named.node for process in node.last.processes]
    ran = [process for process in processes if process.rank == named.rank]
    words_of_rank = outcome.words if outcome.exit_code == ExitCode.HUNG else named.words
    process = ran[-1]._replace(role=CAUSE) if ran else None
    return outcome._replace(node=named.node, process=process, words=words_of_rank)


def _first_failure(run: BootRun) -> ProcessSpan | None:
    """Returns the process that failed first in the last attempt of this run."""
    failed = [process for process in run.latest if process.failed]
    named = [process for process in failed if process.label == run.label]
    return min(named or failed, key=lambda process: process.end or 0.0, default=None)


def _failed_at(run: BootRun) -> float:
    process = _first_failure(run)
    return run.end if process is None or process.end is None else process.end


def _with_cause(node: NodeTimeline, outcome: JobOutcome) -> NodeTimeline:
    """Marks the process that caused the end of the job if it ran on this node."""
    if outcome.node != node.number or outcome.process is None:
        return node
    processes = tuple(
        outcome.process if process._replace(role=CAUSE) == outcome.process else process
        for process in node.last.processes
    )
    return node._replace(runs=(*node.runs[:-1], node.last._replace(processes=processes)))
