"""The parts of the page that are text, as values: header, facts, incidents, processes, logs. Pure."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ma_boot.reporting import hints_for, last_words
from ma_boot.reporting.page.headline import headline, meaning, missing_nodes, node_list, said
from ma_boot.reporting.page.language import (
    INCIDENTS,
    ROLES,
    Text,
    code_shown,
    hint_in_both,
    in_both,
    ranges,
    same,
)
from ma_boot.reporting.timeline import STOPPED, WELL, Incident, JobOutcome, PlaceOfData, ProcessSpan, Timeline
from ma_boot.wording import duration, size

MOST_INCIDENTS = 60
MOST_LOGS = 256
MOST_CHARACTERS = 200  # of a cell
MOST_GROUPS = 40
MOST_PROCESSES = 64  # in the table with a row for each
MOST_PLACES = 60
MOST_COMMANDS = 4
_WAYS = {"input": Text("input", "输入"), "output": Text("output", "输出")}
_MOVES = {"input": "download", "output": "upload"}
_ORDER = ("cause", "followed", "unknown", "stopped", "well")


class Header(NamedTuple):
    """How the job ended; `process` is the one that failed, with its last words and hints if known.

    `said` is the cause in the words of whoever knows it, `cause` the rest of what ma_boot says of it.
    """

    tone: str
    job: str
    headline: Text
    said: Text
    exit_code: Optional[int]
    meaning: Optional[Text]
    cause: Text
    process: str
    last_words: str
    hints: Tuple[Text, ...]


class Facts(NamedTuple):
    """The job in numbers; `downloaded` and `uploaded` are in bytes, `nodes` may be `1 of 2`.

    `began` is in seconds since 1970, 0 if unknown.
    """

    began: float
    duration: str
    nodes: Text
    processes: int
    downloaded: int
    uploaded: int
    restarts: int
    reruns: int
    missing_nodes: Optional[Text]
    schedules: int


class IncidentRow(NamedTuple):
    """The same incident on one node or several; `clock` is when it began, in seconds since 1970."""

    at: str
    clock: float
    nodes: str
    name: Text
    text: Text


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
    """The end of a process's log; `href` leads to the whole of it, empty if it is not there."""

    role: str
    heading: Text
    file: str
    href: str
    text: str


class PlaceRow(NamedTuple):
    """An input or output, on one node or several; figures are empty where only its transfer has them."""

    direction: Text
    nodes: str
    name: str
    local: str
    url: str
    files: str
    size: str


def header(timeline: Timeline, tails: Mapping[str, str]) -> Header:
    """The top of the page; `tails` are the ends of the logs, by log file."""
    outcome = timeline.outcome
    code, failed = outcome.exit_code, outcome.process
    tail = tails.get(failed.log_file, "") if failed else ""
    words = said(timeline, tail)
    return Header(
        tone="open" if code is None else "good" if code == 0 else "bad",
        job=timeline.job or "ma_boot",
        headline=headline(timeline),
        said=words,
        exit_code=code,
        meaning=meaning(outcome),
        cause=_more(outcome, words.en),
        process=failed.label if failed else "",
        last_words="\n".join(line[:300] for line in last_words(tail)),
        hints=tuple(hint_in_both(hint[:600]) for hint in hints_for(tail)),
    )


def _more(outcome: JobOutcome, words: str) -> Text:
    """What the cause says beyond the headline."""
    first, *details = outcome.cause.split("\n")
    said = bool(words) and (words in first or words.startswith(first))
    stopped = outcome.by == "signal" and ";" not in first
    known = said or stopped or first == "success" or outcome.by == "training"
    if said and details and details[0].strip(" -") in words:
        del details[0]
    return in_both("\n".join(details if known else [first, *details]))


def facts(timeline: Timeline) -> Facts:
    """The job in numbers."""
    here, missing = len(timeline.nodes), missing_nodes(timeline)
    of_all = Text(f"{here} of {timeline.expected_nodes}", f"{here} / {timeline.expected_nodes}")
    runs = [run for _, run in timeline.all_runs()]
    moved = [transfer for run in runs for transfer in run.transfers]
    return Facts(
        began=timeline.began,
        duration=duration(timeline.seconds),
        nodes=of_all if (timeline.expected_nodes or 0) > here else same(str(here)),
        processes=sum(1 for _ in timeline.last_processes()),
        downloaded=sum(transfer.bytes for transfer in moved if transfer.direction == "download"),
        uploaded=sum(transfer.bytes for transfer in moved if transfer.direction == "upload"),
        restarts=sum(incident.kind == "restart" for incident in timeline.all_incidents()),
        reruns=len(runs) - here,
        missing_nodes=node_list(missing) if missing and here else None,
        schedules=timeline.schedules if timeline.schedules > 1 else 0,
    )


def incident_rows(timeline: Timeline) -> List[IncidentRow]:
    """All incidents, oldest first; the same one on several nodes in one row."""
    alike: Dict[Tuple[str, str, str], List[Incident]] = {}
    for incident in timeline.all_incidents():
        alike.setdefault((incident.kind, incident.label, incident.text), []).append(incident)
    return [
        IncidentRow(
            at=_spread([one.at for one in members]),
            clock=timeline.began + members[0].at,
            nodes=ranges([one.node for one in members if one.node is not None]),
            name=INCIDENTS.get(kind, same(kind)),
            text=_details(label, text),
        )
        for (kind, label, text), members in alike.items()
    ]


def _details(label: str, text: str) -> Text:
    shown = in_both(text)
    en, zh = (" · ".join(filter(None, (label, one)))[:MOST_CHARACTERS] for one in shown)
    return Text(en, zh)


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
    others = dict.fromkeys(process.label for process in processes if process.rank is None)
    return ", ".join([*([f"rank {found}"] if found else []), *others])[:MOST_CHARACTERS]


def _spread(seconds: Sequence[float]) -> str:
    """`0.4 s` or `0.4 s – 12.1 s`."""
    if not seconds:
        return ""
    low, high = duration(min(seconds)), duration(max(seconds))
    return low if low == high else f"{low} – {high}"


def place_rows(timeline: Timeline) -> List[PlaceRow]:
    """The inputs and outputs of the last run of each node; the same one on several nodes in one row.

    The only input or output of a path mapping has the figures of all transfers in its direction.
    """
    alike: Dict[PlaceOfData, List[int]] = {}
    for node in timeline.nodes:
        for place in node.runs[-1].places if node.runs else ():
            alike.setdefault(place, []).append(node.number)
    moved = [transfer for _, run in timeline.all_runs() for transfer in run.transfers]
    mapped = [place.direction for place in alike if place.files is None]
    rows = []
    for place, nodes in list(alike.items())[:MOST_PLACES]:
        files, bytes_, more = place.files, place.bytes, "" if place.complete else "> "
        if files is None and mapped.count(place.direction) == 1:
            own = [transfer for transfer in moved if transfer.direction == _MOVES.get(place.direction)]
            files, bytes_ = (
                (sum(one.files for one in own), sum(one.bytes for one in own)) if own else (None, None)
            )
        rows.append(
            PlaceRow(
                direction=_WAYS.get(place.direction, same(place.direction)),
                nodes=ranges(nodes),
                name=place.name,
                local=place.local,
                url=place.url,
                files="" if files is None else f"{more}{files}",
                size="" if bytes_ is None else f"{more}{size(bytes_)}",
            )
        )
    return rows


def commands(timeline: Timeline) -> List[Tuple[Text, str]]:
    """The command lines that started the job, each with its heading: that of a rehearsal, those of nodes."""
    found: Dict[str, List[int]] = {}
    for node in timeline.nodes:
        if node.runs and node.runs[-1].command:
            found.setdefault(node.runs[-1].command, []).append(node.number)
    rehearsed = [(Text("on this machine", "在本机"), timeline.command)] if timeline.command else []
    of_nodes = [
        (Text(f"on node {ranges(nodes)}", f"在节点 {ranges(nodes)}"), command)
        for command, nodes in list(found.items())[:MOST_COMMANDS]
    ]
    return rehearsed + of_nodes


def log_ends(timeline: Timeline, tails: Mapping[str, str], links: Mapping[str, str]) -> Iterator[LogEnd]:
    """What the processes printed last, those of most interest first; `links` lead to the whole logs."""
    for node, process in _by_interest(timeline):
        tail = tails.get(process.log_file, "")
        if tail.strip():
            label, code = process.label, code_shown(process.code, process.signal)
            heading = Text(
                f"{label} · node {node} · exit code {code}", f"{label} · 节点 {node} · 退出码 {code}"
            )
            yield LogEnd(process.role, heading, process.log_file, links.get(process.log_file, ""), tail)


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
