"""Decodes the events of one run of the boot command as a `BootRun`. Pure.

Events may be of another version, torn, or forged: each field that is not as expected is left out, and the
length of every list and text is limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Callable

from ma_boot.report.cause import LOST_PEER, OWN, Cause
from ma_boot.report.doubt import Doubt
from ma_boot.report.job_ledger import MOST_ENTRIES, LedgerEntry, read_fields
from ma_boot.report.result import node_and_rank
from ma_boot.report.timeline.events import Event, Timed, items, moment, number, several, whole, words
from ma_boot.report.timeline.job_timeline import (
    BootRun,
    HangStacks,
    Incident,
    Measurement,
    PhaseSpan,
    PlaceOfData,
    ProcessSpan,
    StackGroup,
    StuckCollective,
    TransferSpan,
)
from ma_boot.wording import Message, duration

# Limits of what is kept of one run, whatever its events have.
MOST_GROUPS = 64
# Different operations at one place of a sequence of collectives.
MOST_DIFFERENCES = 8
# Characters of a name, or of ranks.
MOST_NAME = 200
# Characters of a stack.
MOST_STACK = 4000
# With restarts a node has more processes than ranks.
MOST_PROCESSES = 1200
MOST_INCIDENTS = 200
MOST_SAMPLES = 400
MOST_PLACES = 100
MOST_STACKS = 20
MOST_VERSIONS = 20
_OF_CARDS = ("utilisation", "memory", "temperature", "power")
_OF_RANKS = ("step_time", "loss", "cpu", "rss", "threads", "read", "written")

Table = Mapping[str, Mapping[str, float]]


def hang_stacks(at: float, event: Event) -> HangStacks:
    """Decodes the folded stacks of an event."""
    named = _object(event, "suspect")
    groups = (_group(group) for group in items(event, "folded")[:MOST_GROUPS] if isinstance(group, dict))
    node = whole(named, "node")
    rank = whole(named, "rank")
    who = "" if node is None else node_and_rank(node, rank)
    label = who if rank is None else f"rank {rank}"
    stuck = (_stuck(row) for row in items(event, "stuck")[:MOST_GROUPS] if isinstance(row, dict))
    why = words(named, "why", 600)
    return HangStacks(at, tuple(groups), who, why=why, stuck=tuple(stuck), label=label)


def _stuck(row: Event) -> StuckCollective:
    differs = (some for some in items(row, "differs")[:MOST_DIFFERENCES] if isinstance(some, dict))
    return StuckCollective(
        group=words(row, "label", MOST_NAME),
        seq=whole(row, "seq") or 0,
        op=words(row, "op", MOST_NAME),
        inside=words(row, "inside", MOST_NAME),
        outside=words(row, "outside", MOST_NAME),
        place=words(row, "place", MOST_NAME),
        differs=tuple((words(some, "ranks", MOST_NAME), words(some, "what", MOST_NAME)) for some in differs),
    )


def job_cause(event: Event) -> Cause | None:
    """Decodes the root cause as known to the node that wrote the event; None if it names no node."""
    cause = _object(event, "cause")
    node, rank, code = whole(cause, "node", 100_000), whole(cause, "rank"), whole(cause, "code", 255)
    text = words(cause, "words") or ("" if code is None else Message.of("exit code {}", code))
    if node is None or not text:
        return None
    at, evidence = number(cause, "at", 1e11) or 0.0, whole(cause, "evidence", LOST_PEER) or OWN
    return Cause(
        node=node,
        rank=rank,
        code=code or 0,
        words=text,
        at=at,
        evidence=evidence,
        place=words(cause, "place", 300),
        hint=words(cause, "hint", 600),
    )


def doubt_in(event: Event) -> Doubt | None:
    """Decodes the doubt of a node's last event; None if its success is not doubtful."""
    doubt = _object(event, "doubt")
    text = words(doubt, "words")
    if not text:
        return None
    return Doubt(
        label=words(doubt, "label", 60),
        rank=whole(doubt, "rank"),
        words=text,
        place=words(doubt, "place", 300),
        log_file=words(doubt, "log_file", 1000),
    )


def _group(group: Mapping[str, Any]) -> StackGroup:
    ranks = (rank for rank in items(group, "ranks") if type(rank) is int and 0 <= rank <= 1_000_000)
    return StackGroup(tuple(ranks), words(group, "stack", MOST_STACK))


def sample(at: float, event: Event) -> Measurement:
    """Decodes the measurements of an event by metric, without unknown values."""
    ranks, cards, host = (_object(event, name) for name in ("ranks", "cards", "host"))
    further = _object(ranks, "values")
    columns = {
        **{name: ranks.get(name) for name in _OF_RANKS},
        **{str(n)[:40]: further[n] for n in list(further)[:8]},
    }
    return Measurement(
        at,
        _table(items(ranks, "rank"), columns),
        _table(items(cards, "card"), {name: cards.get(name) for name in _OF_CARDS}),
        _of_host(host),
    )


def _object(event: Event, name: str) -> Mapping[str, Any]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def _table(names: list[Any], columns: Mapping[str, object]) -> Table:
    """Returns the columns with values, each by the names of the rows."""
    rows = [str(name)[:40] for name in names]
    table: dict[str, dict[str, float]] = {}
    for metric, values in columns.items():
        if isinstance(values, list):
            known = {row: float(value) for row, value in zip(rows, values) if is_figure(value)}
            if known:
                table[metric] = known
    return table


def _of_host(host: Mapping[str, Any]) -> Table:
    """Returns the measurements of the whole machine; of memory and disks the used part."""
    table: dict[str, dict[str, float]] = {}
    for metric in ("cpu", "received", "sent"):
        if is_figure(host.get(metric)):
            table[metric] = {"": float(host[metric])}
    parts = {"memory": {"": host.get("memory")}, "disk": _object(host, "disks")}
    for metric, pairs in parts.items():
        known = {
            str(name)[:60]: float(pair[0])
            for name, pair in list(pairs.items())[:8]
            if isinstance(pair, list) and pair and is_figure(pair[0])
        }
        if known:
            table[metric] = known
    return table


def is_figure(value: object) -> bool:
    """Returns whether a value is a number that can be drawn: neither NaN nor infinite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15


# Label and text of the incidents of each kind.
_INCIDENTS: Mapping[str, Callable[[Event], tuple[str, str]]] = {
    "restart": lambda e: ("", words(e, "reason")),
    "stop": lambda e: ("", words(e, "reason")),
    "reset": lambda e: ("", words(e, "reason")),
    "kill": lambda e: (_labels(e, "left"), Message.of("signal {}", whole(e, "signal", 64) or 0)),
    "unkillable": lambda e: (_labels(e, "left"), ""),
    "hang": lambda e: (_labels(e, "labels"), ""),
    "left-over": lambda e: ("", f"{len(items(e, 'pids'))}"),
    "waiting": lambda e: (words(e, "what", 100), words(e, "reason")),
    "dropped": lambda e: ("", f"{whole(e, 'lines', 10**15) or 0}"),
    "restored": lambda e: (words(e, "step", 40) or "–", words(e, "source")),
    "checkpoints": lambda e: (words(e, "published", 40) or "–", _sets(e)),
    "compile-cache": lambda e: ("", words(e, "text")),
    "slow rank": lambda e: (f"rank {whole(e, 'rank')}", _slowness(e)),
    "loss not finite": lambda e: (
        words(e, "label", 60),
        f"{words(e, 'loss', 10)}, step {whole(e, 'step') or '–'}",
    ),
    "fault": lambda e: (words(e, "target", 100), words(e, "fault")),
}


def _labels(event: Event, name: str) -> str:
    return ", ".join(several(event, name)[:8])


def _slowness(event: Event) -> str:
    step, others = number(event, "step_time", 1e9), number(event, "others", 1e9)
    if step is None or others is None:
        return ""
    return Message.of("{} s a step, the others {} s", f"{step:.2f}", f"{others:.2f}")


def _sets(event: Event) -> str:
    """Describes the newest complete checkpoint, and the age of the one before the end of the training."""
    before, age = words(event, "before", 40), number(event, "age", 1e9)
    newest = Message.of("complete: {}", words(event, "whole", 40) or "–")
    if not before or age is None:
        return newest
    return Message.of("{} · {}: {}", newest, before, duration(age))


def boot_run(node: int | None, events: Timed) -> BootRun:
    """Decodes the run that wrote these events, at least one, each with its seconds after the job's start.

    Events of unknown kinds are ignored.
    """
    of_kind: dict[str, list[tuple[float, Event]]] = {}
    for at, event in events:
        of_kind.setdefault(event["kind"], []).append((at, event))
    last = {kind: group[-1][1] for kind, group in of_kind.items()}
    ending, job = last.get("end", {}), last.get("job", {})
    versions = _object(last.get("software", {}), "versions")
    incidents = filter(None, (incident_of(at, node, event) for at, event in events))
    published = of_kind.get("checkpoint", ())
    return BootRun(
        start=events[0][0],
        end=max(at for at, _ in events),
        phases=tuple(_phases(events)),
        processes=tuple(_processes(events)[-MOST_PROCESSES:]),
        incidents=tuple(incidents)[-MOST_INCIDENTS:],
        transfers=_transfers(events),
        exit_code=whole(ending, "exit_code", 255),
        by=words(ending, "by", 20),
        cause=words(ending, "cause", 3000),
        label=words(ending, "label", 60),
        signal=whole(ending, "signal", 64),
        words=words(ending, "words"),
        command=words(job, "command", 4000),
        host=words(job, "host", 100),
        places=tuple(islice(_places(events), MOST_PLACES)),
        stacks=tuple(hang_stacks(at, event) for at, event in of_kind.get("stacks", ())[-MOST_STACKS:]),
        samples=tuple(sample(at, event) for at, event in of_kind.get("metrics", ())),
        job_cause=job_cause(last.get("job cause", {})),
        program=words(job, "program", 100),
        saves=tuple((_start_of(at, event), words(event, "step", 40)) for at, event in published),
        whole=words(last.get("checkpoints", {}), "whole", 40),
        doubt=doubt_in(ending),
        ledger=tuple(islice(_ledger(of_kind.get("ledger", ())), 2 * MOST_ENTRIES)),
        software={name: words(versions, name, 60) for name in list(versions)[:MOST_VERSIONS]},
    )


def _ledger(events: Iterable[tuple[float, Event]]) -> Iterator[LedgerEntry]:
    fields = (entry for _, event in events for entry in items(event, "entries")[-MOST_ENTRIES:])
    return filter(None, map(read_fields, fields))


def incident_of(at: float, node: int | None, event: Event) -> Incident | None:
    """Decodes an incident; None for an event of another kind."""
    describe = _INCIDENTS.get(event["kind"])
    return None if describe is None else Incident(event["kind"], at, node, *describe(event))


def _phases(events: Timed) -> list[PhaseSpan]:
    """Pairs starts and ends of phases; an end belongs to the latest open phase of its name."""
    phases: list[PhaseSpan] = []
    for at, event in events:
        name = words(event, "phase", 40)
        if event["kind"] == "phase-start":
            phases.append(PhaseSpan(name, at, None, "", ""))
        elif event["kind"] == "phase-end":
            outcome, detail = words(event, "outcome", 20), words(event, "detail")
            for number in reversed(range(len(phases))):
                phase = phases[number]
                if phase.name == name and phase.end is None:
                    phases[number] = phase._replace(end=max(at, phase.start), outcome=outcome, detail=detail)
                    break
            else:
                phases.append(PhaseSpan(name, _start_of(at, event), at, outcome, detail))
    return phases


def _processes(events: Timed) -> list[ProcessSpan]:
    """Pairs starts and ends of processes; an event belongs to the latest process of its label."""
    processes: list[ProcessSpan] = []
    latest: dict[str, int] = {}
    for at, event in events:
        kind, label = event["kind"], words(event, "label", 60)
        if kind == "start" or (kind == "exit" and label not in latest):
            start = at if kind == "start" else _start_of(at, event)
            rank, log_file = whole(event, "rank"), words(event, "log_file", 1000)
            latest[label] = len(processes)
            processes.append(
                ProcessSpan(
                    label=label,
                    rank=rank,
                    start=start,
                    first_output=None,
                    end=None,
                    code=None,
                    signal=None,
                    stopped=False,
                    oom="",
                    log_file=log_file,
                )
            )
        if kind not in ("first-output", "exit") or label not in latest:
            continue
        process = processes[latest[label]]
        if kind == "first-output":
            process = process._replace(first_output=max(process.start, moment(event, "first_ns", at)))
        else:
            process = process._replace(
                end=max(process.start, moment(event, "ended_ns", at)),
                code=whole(event, "code", 255),
                signal=whole(event, "signal", 64),
                stopped=event.get("stopped") is True,
                oom=words(event, "oom"),
            )
        processes[latest[label]] = process
    return processes


def _transfers(events: Timed) -> tuple[TransferSpan, ...]:
    """Returns all transfers, the unfinished ones last.

    The upload of a checkpoint is a transfer, too: the upload at the end does not count it.
    """
    transfers: list[TransferSpan] = []
    running: dict[str, list[tuple[float, int]]] = {}  # the samples of transfers that go on, by direction
    for at, event in events:
        kind, direction = event["kind"], words(event, "direction", 20)
        if kind == "progress":
            done = whole(event, "bytes_done", 10**18)
            if done is not None:
                running.setdefault(direction, []).append((at, done))
        elif kind in ("transfer", "checkpoint"):
            samples = running.pop(direction, []) if kind == "transfer" else []
            transfers.append(
                TransferSpan(
                    direction=direction if kind == "transfer" else "upload",
                    start=_start_of(at, event),
                    end=at,
                    files=whole(event, "files", 10**12) or 0,
                    bytes=whole(event, "bytes", 10**18) or 0,
                    samples=tuple(samples[:: 1 + len(samples) // MOST_SAMPLES]),
                    retries=whole(event, "retries") or 0,
                    by_length=whole(event, "by_length", 10**12) or 0,
                )
            )
    unfinished = (
        TransferSpan(
            direction=direction,
            start=samples[0][0],
            end=None,
            files=0,
            bytes=samples[-1][1],
            samples=tuple(samples[-MOST_SAMPLES:]),
        )
        for direction, samples in running.items()
    )
    return (*transfers[-MOST_PROCESSES:], *unfinished)


def _places(events: Timed) -> Iterator[PlaceOfData]:
    for _, event in events:
        if event["kind"] == "routes":
            for direction in ("input", "output"):
                for pair in items(event, f"{direction}s"):
                    local, url, *_ = (*several({"pair": pair}, "pair", 500), "", "")
                    if local:
                        yield PlaceOfData(direction, "", local, url)
        elif event["kind"] == "channel":
            yield PlaceOfData(
                direction=words(event, "direction", 20),
                name=words(event, "name", 100),
                local=words(event, "local_dir", 500),
                url=words(event, "url", 500),
                files=whole(event, "files", 10**12) or 0,
                bytes=whole(event, "bytes", 10**18) or 0,
                complete=event.get("complete") is not False,
            )


def _start_of(at: float, event: Event) -> float:
    """Returns the start of an activity whose end is this event."""
    return max(0.0, at - (number(event, "seconds", 1e9) or 0.0))
