"""Record of the faults of a rehearsal: which were injected, when, and why others were not."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.report.journal import Journal


class Injection(NamedTuple):
    """The moment of an injection (seconds on the monotonic clock), and the problem if it failed."""

    at: float
    problem: str | None = None


class InjectedFaults:
    """The injections of a rehearsal, in their order; each is also an event and a line of the journal.

    Thread-safe: faults of ranks, of rank tables and of OBS are injected by different threads.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._injections: dict[Fault, Injection] = {}

    def note(self, fault: Fault, problem: str | None = None) -> None:
        """Records an injection; later ones of the same fault are ignored."""
        with self._lock:
            if fault in self._injections:
                return
            self._injections[fault] = Injection(time.monotonic(), problem)
        self._journal.event("fault", fault=str(fault), problem=problem)
        self._journal.say(f"fault: {fault}" + (f": {problem}" if problem else ""))

    def injections(self) -> dict[Fault, Injection]:
        """Returns the injections so far, in their order."""
        with self._lock:
            return dict(self._injections)

    def missing(self, faults: Sequence[Fault]) -> list[Fault]:
        """Returns those of the faults that were not injected so far."""
        injected = self.injections()
        return [fault for fault in faults if fault not in injected]
