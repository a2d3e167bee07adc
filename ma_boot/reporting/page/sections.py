"""The parts of the page that are text, as values: header, facts, incidents, processes, logs. Pure."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ma_boot.reporting import duration, hints_for, last_words
from ma_boot.reporting.page.headline import headline, meaning, missing_nodes, node_list
from ma_boot.reporting.page.language import INCIDENTS, ROLES, Text, code_shown, ranges, same
from ma_boot.reporting.timeline import STOPPED, WELL, Incident, ProcessSpan, Timeline

MOST_INCIDENTS = 60
MOST_LOGS = 64
MOST_CHARACTERS = 120  # of a cell
MOST_GROUPS = 40
MOST_PROCESSES = 64  # in the table with a row for each
_ORDER = ("cause", "followed", "unknown", "stopped", "well")


class Header(NamedTuple):
    """How the job ended; `process` is the one that failed, with its last words and hints if known."""

    tone: str
    job: str
    headline: Text
    exit_code: Optional[int]
    meaning: Optional[Text]
    cause: str
    process: str
    last_words: str
    hints: Tuple[str, ...]


class Facts(NamedTuple):
    """The job in numbers; `downloaded` and `uploaded` are in bytes, `nodes` may be `1 of 2`."""

    began: str
    duration: str
    nodes: Text
    processes: int
    downloaded: int
    uploaded: int
    restarts: int
    reruns: int
    missing_nodes: Optional[Text]


class IncidentRow(NamedTuple):
    """The same incident on one node or several."""

    at: str
    nodes: str
    name: Text
    text: str


class ProcessRow(NamedTuple):
    """Processes that ended in the same way; `role` is a CSS class."""

    processes: str
    nodes: str
    code: str
    role: str
    role_name: Text
    lived: str
    first_output: str


class LogEnd(NamedTuple):
    """The end of a process's log."""

    role: str
    heading: Text
    file: str
    text: str


def header(timeline: Timeline, tails: Mapping[str, str]) -> Header:
    """The top of the page; `tails` are the ends of the logs, by log file."""
    outcome = timeline.outcome
    code, failed = outcome.exit_code, outcome.process
    tail = tails.get(failed.log_file, "") if failed else ""
    return Header(
        tone="open" if code is None else "good" if code == 0 else "bad",
        job=timeline.job or "ma_boot",
        headline=headline(timeline),
        exit_code=code,
        meaning=meaning(outcome),
        cause="" if outcome.cause == "success" else outcome.cause,
        process=failed.label if failed else "",
        last_words="\n".join(line[:300] for line in last_words(tail)),
        hints=tuple(hint[:600] for hint in hints_for(tail)),
    )


def facts(timeline: Timeline) -> Facts:
    """The job in numbers."""
    here, missing = len(timeline.nodes), missing_nodes(timeline)
    of_all = Text(f"{here} of {timeline.expected_nodes}", f"{here} / {timeline.expected_nodes}")
    began = datetime.fromtimestamp(timeline.began, timezone.utc)
    runs = [run for _, run in timeline.all_runs()]
    moved = [transfer for run in runs for transfer in run.transfers]
    return Facts(
        began=f"{began:%Y-%m-%d %H:%M:%S} UTC" if timeline.began else "",
        duration=duration(timeline.seconds),
        nodes=of_all if (timeline.expected_nodes or 0) > here else same(str(here)),
        processes=sum(1 for _ in timeline.last_processes()),
        downloaded=sum(transfer.bytes for transfer in moved if transfer.direction == "download"),
        uploaded=sum(transfer.bytes for transfer in moved if transfer.direction == "upload"),
        restarts=sum(incident.kind == "restart" for incident in timeline.all_incidents()),
        reruns=len(runs) - here,
        missing_nodes=node_list(missing) if missing and here else None,
    )


def incident_rows(timeline: Timeline) -> List[IncidentRow]:
    """All incidents, oldest first; the same one on several nodes in one row."""
    alike: Dict[Tuple[str, str, str], List[Incident]] = {}
    for incident in timeline.all_incidents():
        alike.setdefault((incident.kind, incident.label, incident.text), []).append(incident)
    return [
        IncidentRow(
            at=_spread([one.at for one in members]),
            nodes=ranges([one.node for one in members if one.node is not None]),
            name=INCIDENTS.get(kind, same(kind)),
            text=" · ".join(filter(None, (label, text)))[:MOST_CHARACTERS],
        )
        for (kind, label, text), members in alike.items()
    ]


def process_rows(timeline: Timeline) -> Tuple[List[ProcessRow], List[ProcessRow]]:
    """The ends of all processes: a row for those that ended alike, and one for each if they are few."""
    processes = list(timeline.last_processes())
    groups: Dict[Tuple[str, Optional[int], Optional[int]], List[Tuple[int, ProcessSpan]]] = {}
    for node, process in processes:
        groups.setdefault((process.role, process.code, process.signal), []).append((node, process))
    ordered = sorted(groups.items(), key=lambda group: _ORDER.index(group[0][0]))[:MOST_GROUPS]
    each = [_row([one]) for one in processes] if len(groups) < len(processes) <= MOST_PROCESSES else []
    return [_row(members) for _, members in ordered], each


def _row(members: Sequence[Tuple[int, ProcessSpan]]) -> ProcessRow:
    processes = [process for _, process in members]
    first = processes[0]
    return ProcessRow(
        processes=_labels(processes),
        nodes=ranges([node for node, _ in members]),
        code=code_shown(first.code, first.signal),
        role=first.role,
        role_name=ROLES[first.role],
        lived=_spread([p.end - p.start for p in processes if p.end is not None]),
        first_output=_spread([p.first_output - p.start for p in processes if p.first_output is not None]),
    )


def _labels(processes: Sequence[ProcessSpan]) -> str:
    """`rank 0–7, scheduler`."""
    found = ranges([process.rank for process in processes if process.rank is not None])
    others = [process.label for process in processes if process.rank is None]
    return ", ".join([*([f"rank {found}"] if found else []), *others[:8]])[:MOST_CHARACTERS]


def _spread(seconds: Sequence[float]) -> str:
    """`0.4 s` or `0.4 s – 12.1 s`."""
    if not seconds:
        return ""
    low, high = duration(min(seconds)), duration(max(seconds))
    return low if low == high else f"{low} – {high}"


def log_ends(timeline: Timeline, tails: Mapping[str, str]) -> Iterator[LogEnd]:
    """What the processes printed last, those of most interest first."""
    for node, process in _by_interest(timeline):
        tail = tails.get(process.log_file, "")
        if tail.strip():
            label, code = process.label, code_shown(process.code, process.signal)
            heading = Text(
                f"{label} · node {node} · exit code {code}", f"{label} · 节点 {node} · 退出码 {code}"
            )
            yield LogEnd(process.role, heading, process.log_file, tail)


def logs_to_read(timeline: Timeline) -> List[ProcessSpan]:
    """The processes whose logs the page shows, and a node that ended without an event of its end."""
    failed = timeline.outcome.process
    wanted = [process for _, process in _by_interest(timeline)]
    return wanted if failed is None or failed in wanted or not failed.log_file else [failed, *wanted]


def _by_interest(timeline: Timeline) -> List[Tuple[int, ProcessSpan]]:
    """The processes with a log: the cause, those that failed after it by time, the others by rank."""

    def order(one: Tuple[int, ProcessSpan]) -> Tuple[int, float]:
        process = one[1]
        by_rank = process.role in (WELL, STOPPED) or process.end is None
        return _ORDER.index(process.role), (process.rank or 0) if by_rank else (process.end or 0.0)

    logged = [(node, process) for node, process in timeline.last_processes() if process.log_file]
    return sorted(logged, key=order)[:MOST_LOGS]
