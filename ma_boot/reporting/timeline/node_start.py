"""The events of one start of the boot command as a `Start`. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from ma_boot.reporting.timeline.events import Event, moment, number, several, whole, words
from ma_boot.reporting.timeline.job_timeline import Life, Mark, Phase, Start, Transfer

MOST_LIVES = 1200  # of one start: with restarts a node has more than it has ranks
MOST_MARKS = 200
MOST_SAMPLES = 400
_MARKS: Mapping[str, Callable[[Event], Tuple[str, str]]] = {
    "restart": lambda e: ("", words(e, "reason")),
    "stop": lambda e: ("", words(e, "reason")),
    "kill": lambda e: (", ".join(several(e, "left")[:8]), f"signal {whole(e, 'signal', 64) or 0}"),
    "unkillable": lambda e: (", ".join(several(e, "left")[:8]), ""),
    "hang": lambda e: (", ".join(several(e, "labels")[:8]), ""),
    "left-over": lambda e: ("", f"{len(e['pids']) if isinstance(e.get('pids'), list) else 0}"),
    "dropped": lambda e: ("", f"{whole(e, 'lines', 10**15) or 0}"),
    "fault": lambda e: (words(e, "target", 100), words(e, "fault")),
}


def as_start(node: Optional[int], events: Tuple[Tuple[float, Event], ...]) -> Start:
    """The start that these events, with their wall times, tell of; at least one event."""
    gathered = _Gathered(node)
    for at, event in events:
        gathered.take(at, event)
    begin, end = events[0][0], max(at for at, _ in events)
    last = gathered.ending or {}
    return Start(
        begin=begin,
        end=end,
        host=gathered.host,
        phases=tuple(gathered.phases),
        lives=tuple(gathered.lives[-MOST_LIVES:]),
        marks=tuple(gathered.marks[-MOST_MARKS:]),
        transfers=gathered.all_transfers(),
        exit_code=whole(last, "exit_code", 255),
        by=words(last, "by", 20),
        cause=words(last, "cause", 3000),
        label=words(last, "label", 60),
        signal=whole(last, "signal", 64),
    )


def mark_of(at: float, node: Optional[int], event: Event) -> Optional[Mark]:
    """The event as something that happened at a moment, if it is of that kind."""
    describe = _MARKS.get(event["kind"])
    if describe is None:
        return None
    label, text = describe(event)
    return Mark(event["kind"], at, node, label, text)


class _Gathered:
    """What the events so far have told."""

    def __init__(self, node: Optional[int]) -> None:
        self.host = ""
        self.phases: List[Phase] = []
        self.lives: List[Life] = []
        self.marks: List[Mark] = []
        self.transfers: List[Transfer] = []
        self.ending: Optional[Event] = None
        self._node = node
        self._open: Dict[str, int] = {}  # the place of each label's last life
        self._going: Dict[str, List[Tuple[float, int]]] = {}

    def take(self, at: float, event: Event) -> None:
        """Adds one event; a kind that is not known is left alone."""
        kind = event["kind"]
        known: Mapping[str, Callable[[float, Event], None]] = {
            "phase-start": self._phase_start,
            "phase-end": self._phase_end,
            "start": self._start,
            "first-output": self._first_output,
            "exit": self._exit,
            "progress": self._progress,
            "transfer": self._transfer,
        }
        if kind in known:
            known[kind](at, event)
        elif kind == "job":
            self.host = words(event, "host", 100)
        elif kind == "end":
            self.ending = event
        mark = mark_of(at, self._node, event)
        if mark is not None:
            self.marks.append(mark)

    def all_transfers(self) -> Tuple[Transfer, ...]:
        """The transfers, also those that did not come to their end."""
        cut = [
            Transfer(direction, samples[0][0], None, 0, samples[-1][1], tuple(samples[-MOST_SAMPLES:]))
            for direction, samples in self._going.items()
        ]
        return (*self.transfers[-MOST_LIVES:], *cut)

    def _phase_start(self, at: float, event: Event) -> None:
        self.phases.append(Phase(words(event, "phase", 40), at, None, "", ""))

    def _phase_end(self, at: float, event: Event) -> None:
        name = words(event, "phase", 40)
        outcome, detail = words(event, "outcome", 20), words(event, "detail")
        for place in range(len(self.phases) - 1, -1, -1):
            phase = self.phases[place]
            if phase.name == name and phase.end is None:
                self.phases[place] = replace(phase, end=max(at, phase.start), outcome=outcome, detail=detail)
                return
        self.phases.append(Phase(name, at - (number(event, "seconds", 1e9) or 0.0), at, outcome, detail))

    def _start(self, at: float, event: Event) -> None:
        label = words(event, "label", 60)
        self._open[label] = len(self.lives)
        log_file = words(event, "log_file", 1000)
        self.lives.append(Life(label, whole(event, "rank"), at, None, None, None, None, False, "", log_file))

    def _first_output(self, at: float, event: Event) -> None:
        place = self._open.get(words(event, "label", 60))
        if place is not None:
            life = self.lives[place]
            self.lives[place] = replace(life, first=max(life.start, moment(event, "first_ns", at)))

    def _exit(self, at: float, event: Event) -> None:
        label = words(event, "label", 60)
        if label not in self._open:
            self._start(at - (number(event, "seconds", 1e9) or 0.0), event)
        place = self._open[label]
        life = self.lives[place]
        self.lives[place] = replace(
            life,
            end=max(life.start, moment(event, "ended_ns", at)),
            code=whole(event, "code", 255),
            signal=whole(event, "signal", 64),
            stopped=event.get("stopped") is True,
            oom=words(event, "oom"),
        )

    def _progress(self, at: float, event: Event) -> None:
        done = whole(event, "bytes_done", 10**18)
        if done is not None:
            self._going.setdefault(words(event, "direction", 20), []).append((at, done))

    def _transfer(self, at: float, event: Event) -> None:
        direction = words(event, "direction", 20)
        samples = self._going.pop(direction, [])
        thinned = samples[:: 1 + len(samples) // MOST_SAMPLES]
        begin = at - (number(event, "seconds", 1e9) or 0.0)
        files, size = whole(event, "files", 10**12) or 0, whole(event, "bytes", 10**18) or 0
        again = whole(event, "retries") or 0
        self.transfers.append(Transfer(direction, begin, at, files, size, tuple(thinned), again))
