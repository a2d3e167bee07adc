"""Makes the faults of ranks and nodes, from outside: by signals, and by what the records say of the job."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from functools import partial
from typing import BinaryIO, Callable, Dict, List, Mapping, Optional, Sequence

from ma_boot.processes import signal_group, signal_process
from ma_boot.rehearsal.faults.forced_exit import force_exit
from ma_boot.rehearsal.faults.grammar import Fault
from ma_boot.rehearsal.faults.watch import NodeSeen, RankSeen, Watch

_LOOK_SECONDS = 0.01
GRACE_SECONDS = 30.0  # Kubernetes' own; ModelArts names none
FLOOD_BYTES = 64 << 20
_FLOOD_LINE = b"this line comes from --fault flood: " + b"x" * 90 + b"\n"


class Injector:
    """Makes each fault once, at its moment, while a start of the job runs.

    `begins_again` is the fault after which the platform starts the job again, as soon as it came. `note` is
    told of each fault that came, and of what went wrong with one (None: nothing did).
    """

    def __init__(self, faults: Sequence[Fault], note: Callable[[Fault, Optional[str]], None]) -> None:
        self.begins_again: Optional[Fault] = None
        self._open: List[Fault] = [fault for fault in faults if fault.kind in _ACTS]
        self._note = note
        self._later: List[_Later] = []

    def run(self, watch: Watch, cancel: threading.Event) -> None:
        """Returns when nothing is left to do, or when cancelled."""
        while (self._open or self._later) and not cancel.wait(_LOOK_SECONDS):
            watch.look()
            now = time.monotonic()
            for fault in [one for one in self._open if _due(one, watch, now)]:
                self._open.remove(fault)
                self._make(fault, watch)
            for later in [one for one in self._later if one.at <= now]:
                self._later.remove(later)
                later.act()

    def _make(self, fault: Fault, watch: Watch) -> None:
        try:
            _ACTS[fault.kind](self, fault, watch)
        except OSError as error:
            self._note(fault, f"it could not be made: {error.strerror or error}")
        else:
            self._note(fault, None)

    def kill(self, fault: Fault, watch: Watch) -> None:
        """A signal to the rank."""
        os.kill(_rank(fault, watch).pid, signal.Signals[f"SIG{fault.signal or 'KILL'}"])

    def exit(self, fault: Fault, watch: Watch) -> None:
        """The rank ends with a code."""
        force_exit(_rank(fault, watch).pid, fault.code or 1)

    def hang(self, fault: Fault, watch: Watch) -> None:
        """The rank and what it started stand still, for a time or for ever."""
        pid = _rank(fault, watch).pid
        signal_group(pid, signal.SIGSTOP)
        if fault.lasts is not None:
            self._after(fault.lasts, lambda: signal_group(pid, signal.SIGCONT))

    def flood(self, fault: Fault, watch: Watch) -> None:
        """Lines into the rank's standard output, as fast as they are taken."""
        output = open(f"/proc/{_rank(fault, watch).pid}/fd/1", "wb")  # noqa: SIM115 -- _pour closes it
        size = fault.size or FLOOD_BYTES
        threading.Thread(target=_pour, args=(output, size), name="flood", daemon=True).start()

    def lose(self, fault: Fault, watch: Watch) -> None:
        """The node goes: its ma_boot at once, and with it, by its guard, all that it started."""
        for node in _nodes(fault, watch):
            signal_process(node.pid, signal.SIGKILL)

    def reschedule(self, fault: Fault, watch: Watch) -> None:
        """The same, and the platform begins again with another node in its place."""
        self.begins_again = fault
        self.lose(fault, watch)

    def restart(self, fault: Fault, watch: Watch) -> None:
        """The processes of all nodes are ended, and the boot command runs again."""
        self.begins_again = fault
        for node in watch.nodes.values():
            signal_process(node.pid, signal.Signals[f"SIG{fault.signal or 'KILL'}"])

    def stop(self, fault: Fault, watch: Watch) -> None:
        """SIGTERM, and what has not ended after the grace gets SIGKILL.

        The whole job is stopped by way of the rehearsal: a node that it stopped once more, as another one has
        ended, would give its upload up.
        """
        pids = [node.pid for node in _nodes(fault, watch)]
        for pid in pids if fault.node is not None else [os.getpid()]:
            signal_process(pid, signal.SIGTERM)
        grace = GRACE_SECONDS if fault.grace is None else fault.grace
        for pid in pids:
            self._after(grace, partial(signal_process, pid, signal.SIGKILL))

    def _after(self, seconds: float, act: Callable[[], object]) -> None:
        self._later.append(_Later(time.monotonic() + seconds, act))


class _Later:
    """What is to be done at a moment of the monotonic clock."""

    def __init__(self, at: float, act: Callable[[], object]) -> None:
        self.at = at
        self.act = act


_ACTS: Mapping[str, Callable[[Injector, Fault, Watch], None]] = {
    "kill": Injector.kill,
    "exit": Injector.exit,
    "hang": Injector.hang,
    "flood": Injector.flood,
    "lost": Injector.lose,
    "rescheduled": Injector.reschedule,
    "restart": Injector.restart,
    "stop": Injector.stop,
}


def _due(fault: Fault, watch: Watch, now: float) -> bool:
    """The moment has come: without one in the order, as soon as there is whom it concerns."""
    if fault.stage == "rank":
        rank = watch.running(fault.rank or 0)
        if rank is None:
            return False
        if fault.line is not None:
            return rank.lines.count() >= fault.line
        return now >= rank.started + (fault.at or 0.0)
    nodes = _nodes(fault, watch)
    if not _all_there(fault, watch):
        return False
    if fault.phase is not None:  # of all that are meant: one that just starts would die without a word
        return all(fault.phase in node.phases for node in nodes)
    return now >= max(node.started for node in nodes) + (fault.at or 0.0)


def why_not(fault: Fault, watch: Watch) -> str:
    """Why a fault has not come in a start that is over."""
    if fault.stage == "rank":
        rank = watch.ranks.get(fault.rank or 0)
        if rank is None:
            return f"rank {fault.rank} was never started"
        if fault.line is not None:
            return f"rank {fault.rank} printed {rank.lines.count()} lines"
        return f"rank {fault.rank} had ended before"
    if fault.stage == "obs":
        return "no such request was made"
    if fault.stage == "table":
        return "the job ended before"
    nodes = _nodes(fault, watch)
    if not _all_there(fault, watch):
        return "not every node was started"
    if fault.phase is not None and not all(fault.phase in node.phases for node in nodes):
        return f"phase {fault.phase} did not begin on every such node"
    return "the job ended before"


def _rank(fault: Fault, watch: Watch) -> RankSeen:
    return watch.ranks[fault.rank or 0]


def _nodes(fault: Fault, watch: Watch) -> List[NodeSeen]:
    """The node that is meant, or all."""
    chosen: Dict[int, NodeSeen] = watch.nodes
    return [seen for node, seen in chosen.items() if fault.node in (None, node)]


def _all_there(fault: Fault, watch: Watch) -> bool:
    return len(_nodes(fault, watch)) == (watch.size if fault.node is None else 1)


def _pour(output: BinaryIO, size: int) -> None:
    """Writes until the size is reached, or the rank is gone."""
    with output, contextlib.suppress(OSError):
        for _ in range(0, size, len(_FLOOD_LINE)):
            output.write(_FLOOD_LINE)
