"""The events of one run of the boot command as a `BootRun`. Pure."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ma_boot.reporting import LOST_PEER, OWN, Cause, node_and_rank
from ma_boot.reporting.timeline.events import Event, items, moment, number, several, whole, words
from ma_boot.reporting.timeline.job_timeline import (
    BootRun,
    HangStacks,
    Incident,
    Measurement,
    PhaseSpan,
    PlaceOfData,
    ProcessSpan,
    StackGroup,
    TransferSpan,
)
from ma_boot.wording import Message, duration

MOST_GROUPS = 64
MOST_STACK = 4000  # characters
_OF_CARDS = ("utilisation", "memory", "temperature", "power")
_OF_RANKS = ("step_time", "loss", "cpu", "rss", "threads", "read", "written")

Table = Mapping[str, Mapping[str, float]]


def hang_stacks(at: float, event: Event) -> HangStacks:
    """The folded stacks of an event, whatever it has."""
    named = _object(event, "suspect")
    groups = (_group(group) for group in items(event, "folded")[:MOST_GROUPS] if isinstance(group, dict))
    return HangStacks(at, tuple(groups), _who(named), words(named, "why", 600))


def job_cause(event: Event) -> Optional[Cause]:
    """The cause of the end of the job, as far as the node that wrote it knew; None if it names no node."""
    cause = _object(event, "cause")
    node, rank, code = whole(cause, "node", 100_000), whole(cause, "rank"), whole(cause, "code", 255)
    text = words(cause, "words") or ("" if code is None else Message.of("exit code {}", code))
    if node is None or not text:
        return None
    at, evidence = number(cause, "at", 1e11) or 0.0, whole(cause, "evidence", LOST_PEER) or OWN
    return Cause(
        node, rank, code or 0, text, at, evidence, words(cause, "place", 300), words(cause, "hint", 600)
    )


def _who(named: Event) -> str:
    """`node 3, rank 27`, as far as it is known."""
    node, rank = whole(named, "node"), whole(named, "rank")
    return "" if node is None else node_and_rank(node, rank)


def _group(group: Mapping[str, Any]) -> StackGroup:
    ranks = (rank for rank in items(group, "ranks") if type(rank) is int and 0 <= rank <= 1_000_000)
    return StackGroup(tuple(ranks), words(group, "stack", MOST_STACK))


def sample(at: float, event: Event) -> Measurement:
    """The figures of an event by metric, without those that are unknown."""
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


def _table(names: List[Any], columns: Mapping[str, object]) -> Table:
    """The columns that have figures, each by the names of the rows."""
    rows = [str(name)[:40] for name in names]
    table: Dict[str, Dict[str, float]] = {}
    for metric, values in columns.items():
        if isinstance(values, list):
            known = {row: float(value) for row, value in zip(rows, values) if is_figure(value)}
            if known:
                table[metric] = known
    return table


def _of_host(host: Mapping[str, Any]) -> Table:
    """What the machine as a whole does; of memory and disks the used part."""
    table: Dict[str, Dict[str, float]] = {}
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
    """Whether this is a number that can be drawn: not NaN, not infinite."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15


MOST_PROCESSES = 1200  # of one run: with restarts a node has more processes than ranks
MOST_INCIDENTS = 200
MOST_SAMPLES = 400
MOST_PLACES = 100
MOST_STACKS = 20
MOST_VERSIONS = 20
_INCIDENTS: Mapping[str, Callable[[Event], Tuple[str, str]]] = {  # the label and the text of each kind
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
    """The newest whole set, and for how long the one before the end of the training had been whole."""
    before, age = words(event, "before", 40), number(event, "age", 1e9)
    whole_now = Message.of("whole: {}", words(event, "whole", 40) or "–")
    if not before or age is None:
        return whole_now
    return Message.of("{} · {}: {}", whole_now, before, duration(age))


def boot_run(node: Optional[int], events: Tuple[Tuple[float, Event], ...]) -> BootRun:
    """The run that wrote these events, at least one, each with its time in seconds after the job began."""
    story = _Story(node)
    for at, event in events:
        story.take(at, event)
    return BootRun(
        begin=events[0][0],
        end=max(at for at, _ in events),
        phases=tuple(story.phases),
        processes=tuple(story.processes[-MOST_PROCESSES:]),
        incidents=tuple(story.incidents[-MOST_INCIDENTS:]),
        transfers=story.all_transfers(),
        exit_code=whole(story.ending, "exit_code", 255),
        by=words(story.ending, "by", 20),
        cause=words(story.ending, "cause", 3000),
        label=words(story.ending, "label", 60),
        signal=whole(story.ending, "signal", 64),
        words=words(story.ending, "words"),
        command=words(story.job, "command", 4000),
        host=words(story.job, "host", 100),
        places=tuple(story.places[:MOST_PLACES]),
        stacks=tuple(story.stacks[-MOST_STACKS:]),
        samples=tuple(story.samples),
        job_cause=story.job_cause,
        program=words(story.job, "program", 100),
        saves=tuple(story.saves),
        whole=story.whole,
        software={name: words(story.software, name, 60) for name in list(story.software)[:MOST_VERSIONS]},
    )


def incident_of(at: float, node: Optional[int], event: Event) -> Optional[Incident]:
    """The event as an incident; None for an event of another kind."""
    describe = _INCIDENTS.get(event["kind"])
    return None if describe is None else Incident(event["kind"], at, node, *describe(event))


class _Story:
    """What is known after the events so far."""

    def __init__(self, node: Optional[int]) -> None:
        self.phases: List[PhaseSpan] = []
        self.processes: List[ProcessSpan] = []
        self.incidents: List[Incident] = []
        self.transfers: List[TransferSpan] = []
        self.ending: Event = {}
        self.job: Event = {}
        self.software: Event = {}
        self.places: List[PlaceOfData] = []
        self.stacks: List[HangStacks] = []
        self.samples: List[Measurement] = []
        self.job_cause: Optional[Cause] = None
        self.saves: List[Tuple[float, str]] = []
        self.whole = ""
        self._node = node
        self._latest: Dict[str, int] = {}  # label: the index of its latest process
        self._samples: Dict[str, List[Tuple[float, int]]] = {}  # of transfers that go on, by direction

    def take(self, at: float, event: Event) -> None:
        """Adds one event; unknown kinds are ignored."""
        kind = event["kind"]
        known: Mapping[str, Callable[[float, Event], None]] = {
            "phase-start": self._phase_start,
            "phase-end": self._phase_end,
            "start": self._start,
            "first-output": self._first_output,
            "exit": self._exit,
            "progress": self._progress,
            "transfer": self._transfer,
            "checkpoint": self._published,
            "routes": self._routes,
            "channel": self._channel,
            "stacks": lambda at, event: self.stacks.append(hang_stacks(at, event)),
            "metrics": lambda at, event: self.samples.append(sample(at, event)),
            "job cause": self._job_cause,
        }
        if kind in known:
            known[kind](at, event)
        elif kind == "checkpoints":
            self.whole = words(event, "whole", 40)
        elif kind == "end":
            self.ending = event
        elif kind == "job":
            self.job = event
        elif kind == "software":
            self.software = _object(event, "versions")
        incident = incident_of(at, self._node, event)
        if incident is not None:
            self.incidents.append(incident)

    def all_transfers(self) -> Tuple[TransferSpan, ...]:
        """All transfers, the unfinished ones last."""
        unfinished = [
            TransferSpan(direction, samples[0][0], None, 0, samples[-1][1], tuple(samples[-MOST_SAMPLES:]))
            for direction, samples in self._samples.items()
        ]
        return (*self.transfers[-MOST_PROCESSES:], *unfinished)

    def _phase_start(self, at: float, event: Event) -> None:
        self.phases.append(PhaseSpan(words(event, "phase", 40), at, None, "", ""))

    def _phase_end(self, at: float, event: Event) -> None:
        name = words(event, "phase", 40)
        outcome, detail = words(event, "outcome", 20), words(event, "detail")
        for index in range(len(self.phases) - 1, -1, -1):
            phase = self.phases[index]
            if phase.name == name and phase.end is None:
                self.phases[index] = phase._replace(end=max(at, phase.start), outcome=outcome, detail=detail)
                return
        self.phases.append(PhaseSpan(name, _begin(at, event), at, outcome, detail))

    def _start(self, at: float, event: Event) -> None:
        label = words(event, "label", 60)
        self._latest[label] = len(self.processes)
        log_file = words(event, "log_file", 1000)
        rank = whole(event, "rank")
        self.processes.append(ProcessSpan(label, rank, at, None, None, None, None, False, "", log_file))

    def _first_output(self, at: float, event: Event) -> None:
        index = self._latest.get(words(event, "label", 60))
        if index is not None:
            process = self.processes[index]
            spoke = max(process.start, moment(event, "first_ns", at))
            self.processes[index] = process._replace(first_output=spoke)

    def _exit(self, at: float, event: Event) -> None:
        label = words(event, "label", 60)
        if label not in self._latest:
            self._start(_begin(at, event), event)
        index = self._latest[label]
        process = self.processes[index]
        self.processes[index] = process._replace(
            end=max(process.start, moment(event, "ended_ns", at)),
            code=whole(event, "code", 255),
            signal=whole(event, "signal", 64),
            stopped=event.get("stopped") is True,
            oom=words(event, "oom"),
        )

    def _progress(self, at: float, event: Event) -> None:
        done = whole(event, "bytes_done", 10**18)
        if done is not None:
            self._samples.setdefault(words(event, "direction", 20), []).append((at, done))

    def _transfer(self, at: float, event: Event) -> None:
        direction = words(event, "direction", 20)
        samples = self._samples.pop(direction, [])
        thinned = samples[:: 1 + len(samples) // MOST_SAMPLES]
        files, size = whole(event, "files", 10**12) or 0, whole(event, "bytes", 10**18) or 0
        retries, by_length = whole(event, "retries") or 0, whole(event, "by_length", 10**12) or 0
        self.transfers.append(
            TransferSpan(direction, _begin(at, event), at, files, size, tuple(thinned), retries, by_length)
        )

    def _published(self, at: float, event: Event) -> None:
        """A step of an output with checkpoints, which the upload at the end does not count."""
        files, size = whole(event, "files", 10**12) or 0, whole(event, "bytes", 10**18) or 0
        self.transfers.append(TransferSpan("upload", _begin(at, event), at, files, size, ()))
        self.saves.append((_begin(at, event), words(event, "step", 40)))

    def _routes(self, at: float, event: Event) -> None:
        for direction in ("input", "output"):
            for pair in items(event, f"{direction}s"):
                local, url, *_ = (*several({"pair": pair}, "pair", 500), "", "")
                if local:
                    self.places.append(PlaceOfData(direction, "", local, url))

    def _channel(self, at: float, event: Event) -> None:
        self.places.append(
            PlaceOfData(
                direction=words(event, "direction", 20),
                name=words(event, "name", 100),
                local=words(event, "local_dir", 500),
                url=words(event, "url", 500),
                files=whole(event, "files", 10**12) or 0,
                bytes=whole(event, "bytes", 10**18) or 0,
                complete=event.get("complete") is not False,
            )
        )

    def _job_cause(self, at: float, event: Event) -> None:
        self.job_cause = job_cause(event)


def _begin(at: float, event: Event) -> float:
    """When something began that ended with this event."""
    return max(0.0, at - (number(event, "seconds", 1e9) or 0.0))
