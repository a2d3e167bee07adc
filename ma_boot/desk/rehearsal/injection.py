"""Injects the faults of ranks and nodes from outside, by signals, when the job's events show their moment.

A `Watch` follows one start of the job by its event files: nodes, phases, ranks, lines of output.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Callable, Protocol

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.desk.rehearsal.simulated_cards import break_card
from ma_boot.processes.orphan_guard import process_stat
from ma_boot.processes.signals import signal_group, signal_process
from ma_boot.report.growing_file import GrowingFile
from ma_boot.report.timeline.events import Event, read_events

_POLL_SECONDS = 0.01
_STOP_SECONDS = 5.0
GRACE_SECONDS = 30.0  # the default of Kubernetes; the documents of ModelArts state none
FLOOD_BYTES = 64 << 20
_FLOOD_LINE = b"this line comes from --fault flood: " + b"x" * 90 + b"\n"


@dataclass
class StartedRank:
    """A rank that was started at `started` (seconds on the monotonic clock)."""

    pid: int
    started: float
    lines: GrowingFile
    node: int
    ended: bool = False


@dataclass
class StartedNode:
    """A node that was started, and the phases that it has entered."""

    pid: int
    started: float
    node: int
    phases: set[str] = field(default_factory=set)


class NodeProcesses(Protocol):
    """Reaches the processes of nodes; raises `OSError` if a rank or a node cannot be signalled."""

    def exists(self, rank: StartedRank) -> bool:
        """Returns whether a rank without an end event may still run."""

    def signal_rank(self, rank: StartedRank, signum: int, with_children: bool = False) -> None:
        """Sends a signal to a rank, or to its process group."""

    def signal_node(self, node: StartedNode, signum: int) -> None:
        """Sends a signal to a node's ma_boot, if it has not ended."""


class LocalProcesses:
    """Reaches nodes that are processes of this machine."""

    def exists(self, rank: StartedRank) -> bool:
        """Returns whether its process exists: a killed node writes no event of its end."""
        return os.path.exists(f"/proc/{rank.pid}")

    def signal_rank(self, rank: StartedRank, signum: int, with_children: bool = False) -> None:
        """Sends a signal to a rank, or to its process group."""
        if with_children:
            signal_group(rank.pid, signum)
        else:
            os.kill(rank.pid, signum)

    def signal_node(self, node: StartedNode, signum: int) -> None:
        """Sends a signal to a node's ma_boot, if it has not ended."""
        signal_process(node.pid, signum)


class Watch:
    """One start of a job, with `size` nodes; `poll` reads the new events of the rehearsal and its nodes.

    `processes` reaches the ranks and nodes.
    """

    def __init__(self, job: SimulatedJob, nodes: Sequence[int], processes: NodeProcesses) -> None:
        """Create it before the start of `nodes`: events already in the files belong to an earlier start."""
        self.job = job
        self.processes = processes
        self.nodes: dict[int, StartedNode] = {}
        self.ranks: dict[int, StartedRank] = {}
        self.size = len(nodes)
        self._own = GrowingFile.from_now_on(Path(job.events_file))
        self._tails = {
            node: GrowingFile.from_now_on(Path(job.log_dir(node), f"{job.log_name}-node-{node}-events.jsonl"))
            for node in nodes
        }

    def poll(self) -> None:
        """Reads the new events."""
        for event in _new_events(self._own):
            if event["kind"] == "start":
                node = int(event["label"].split()[1])
                self.nodes[node] = StartedNode(event["pid"], event["monotonic_ns"] / 1e9, node)
        for node, tail in self._tails.items():
            for event in _new_events(tail):
                self._take(node, event)

    def running(self, rank: int) -> StartedRank | None:
        """The rank, if it is running."""
        started = self.ranks.get(rank)
        if started is None or started.ended or not self.processes.exists(started):
            return None
        return started

    def first_running(self, node: int) -> StartedRank | None:
        """The first running rank of the node."""
        ranks = (self.running(rank) for rank in sorted(self.ranks) if self.ranks[rank].node == node)
        return next(filter(None, ranks), None)

    def _take(self, node: int, event: Event) -> None:
        rank = event.get("rank")
        if event["kind"] == "phase-start" and node in self.nodes:
            self.nodes[node].phases.add(event["phase"])
        elif event["kind"] == "start" and rank is not None:
            # A sandboxed node knows its logs by another path.
            log = Path(self.job.log_dir(node), os.path.basename(event["log_file"]))
            self.ranks[rank] = StartedRank(event["pid"], event["monotonic_ns"] / 1e9, GrowingFile(log), node)
        elif event["kind"] == "exit" and rank in self.ranks:
            self.ranks[rank].ended = True


def _new_events(file: GrowingFile) -> tuple[Event, ...]:
    return read_events("\n".join(file.new_lines()), str).events


class Injector:
    """Injects each fault once, at its moment, while one start of the job runs.

    `restarts_job` is set to the injected fault after which the platform starts the job again. `note` is
    called with each injected fault and its problem (None if there was none).
    """

    def __init__(self, faults: Sequence[Fault], note: Callable[[Fault, str | None], None]) -> None:
        self.restarts_job: Fault | None = None
        self._pending: list[Fault] = [fault for fault in faults if fault.kind in _ACTIONS]
        self._note = note
        self._scheduled: list[tuple[float, Callable[[], object]]] = []  # times on the monotonic clock

    def run(self, watch: Watch, cancel: threading.Event) -> None:
        """Returns when nothing is left to do, or when cancelled."""
        while (self._pending or self._scheduled) and not cancel.wait(_POLL_SECONDS):
            watch.poll()
            now = time.monotonic()
            for fault in [fault for fault in self._pending if _is_due(fault, watch, now)]:
                self._pending.remove(fault)
                self._inject(fault, watch)
            for at, action in [scheduled for scheduled in self._scheduled if scheduled[0] <= now]:
                self._scheduled.remove((at, action))
                with contextlib.suppress(OSError):  # the rank or node has ended meanwhile
                    action()

    def _inject(self, fault: Fault, watch: Watch) -> None:
        try:
            _ACTIONS[fault.kind](self, fault, watch)
        except OSError as error:
            self._note(fault, f"injection failed: {error.strerror or error}")
        else:
            self._note(fault, None)

    def kill(self, fault: Fault, watch: Watch) -> None:
        """Sends the rank a signal."""
        watch.processes.signal_rank(_rank(fault, watch), _signal(fault))

    def exit(self, fault: Fault, watch: Watch) -> None:
        """Makes the rank exit with a code."""
        force_exit(_rank(fault, watch).pid, fault.code or 1)

    def hang(self, fault: Fault, watch: Watch) -> None:
        """Suspends the rank and its children, for some time or for good."""
        send = partial(watch.processes.signal_rank, _rank(fault, watch), with_children=True)
        send(signal.SIGSTOP)
        if fault.lasts is not None:
            self._after(fault.lasts, partial(send, signal.SIGCONT))

    def flood(self, fault: Fault, watch: Watch) -> None:
        """Writes lines into the rank's standard output as fast as they are read."""
        output = open(f"/proc/{_rank(fault, watch).pid}/fd/1", "wb")  # noqa: SIM115 -- _pour closes it
        size = fault.size or FLOOD_BYTES
        threading.Thread(target=_pour, args=(output, size), name="flood", daemon=True).start()

    def lose(self, fault: Fault, watch: Watch) -> None:
        """Kills the node's ma_boot; its guard then kills everything that it started."""
        for node in _nodes(fault, watch):
            watch.processes.signal_node(node, signal.SIGKILL)

    def break_card(self, fault: Fault, watch: Watch) -> None:
        """Shows a broken card, and ends the rank that used it, as its driver does."""
        node = fault.node or 0
        break_card(watch.job.home(node))
        rank = watch.first_running(node)
        if rank is not None:
            watch.processes.signal_rank(rank, signal.SIGABRT)

    def reschedule(self, fault: Fault, watch: Watch) -> None:
        """Loses the node, and has the job started again with another one in its place."""
        self.restarts_job = fault
        self.lose(fault, watch)

    def restart(self, fault: Fault, watch: Watch) -> None:
        """Ends the processes of all nodes, and has the boot command run again."""
        self.restarts_job = fault
        for node in watch.nodes.values():
            watch.processes.signal_node(node, _signal(fault))

    def stop(self, fault: Fault, watch: Watch) -> None:
        """Sends SIGTERM, and SIGKILL to what has not ended after the grace period.

        A stop of the whole job goes through the rehearsal, which hands it on once: a node gives up its upload
        at a second signal.
        """
        nodes = _nodes(fault, watch)
        if fault.node is None:
            signal_process(os.getpid(), signal.SIGTERM)
        else:
            watch.processes.signal_node(nodes[0], signal.SIGTERM)
        grace = GRACE_SECONDS if fault.grace is None else fault.grace
        for node in nodes:
            self._after(grace, partial(watch.processes.signal_node, node, signal.SIGKILL))

    def _after(self, seconds: float, action: Callable[[], object]) -> None:
        self._scheduled.append((time.monotonic() + seconds, action))


_ACTIONS: Mapping[str, Callable[[Injector, Fault, Watch], None]] = {
    "kill": Injector.kill,
    "exit": Injector.exit,
    "hang": Injector.hang,
    "flood": Injector.flood,
    "lost": Injector.lose,
    "bad-card": Injector.break_card,
    "rescheduled": Injector.reschedule,
    "restart": Injector.restart,
    "stop": Injector.stop,
}


def _is_due(fault: Fault, watch: Watch, now: float) -> bool:
    """Returns whether the fault is due; by default as soon as its rank or nodes have started."""
    if fault.stage == "rank":
        rank = watch.ranks.get(fault.rank or 0)
        if rank is None:
            return False
        if fault.line is not None:
            is_time = rank.lines.count_lines() >= fault.line
        else:
            is_time = now >= rank.started + (fault.at or 0.0)
        return is_time and watch.running(fault.rank or 0) is not None  # last, as an engine may have to tell
    nodes = _nodes(fault, watch)
    if not _all_started(fault, watch) or (
        fault.kind == "bad-card" and not watch.first_running(fault.node or 0)
    ):
        return False
    if fault.phase is not None:  # on all of them: a node killed as it starts leaves no events
        return all(fault.phase in node.phases for node in nodes)
    return now >= max(node.started for node in nodes) + (fault.at or 0.0)


def why_not_injected(fault: Fault, watch: Watch) -> str:
    """Returns the reason why a fault was not injected in a start that has ended."""
    if fault.stage == "rank":
        rank = watch.ranks.get(fault.rank or 0)
        if rank is None:
            return f"rank {fault.rank} was never started"
        if fault.line is not None:
            return f"rank {fault.rank} printed only {rank.lines.count_lines()} lines"
        return f"rank {fault.rank} had already ended"
    if fault.stage == "obs":
        return "no such request was made"
    if fault.stage == "table":
        return "the job had already ended"
    if not _all_started(fault, watch):
        return "not every node was started"
    if fault.phase is not None and not all(fault.phase in node.phases for node in _nodes(fault, watch)):
        return f"phase {fault.phase} did not begin on every such node"
    return "the job had already ended"


def _signal(fault: Fault) -> signal.Signals:
    return signal.Signals[f"SIG{fault.signal or 'KILL'}"]


def _rank(fault: Fault, watch: Watch) -> StartedRank:
    return watch.ranks[fault.rank or 0]


def _nodes(fault: Fault, watch: Watch) -> list[StartedNode]:
    """The node of the fault; all nodes if it names none."""
    return [seen for node, seen in watch.nodes.items() if fault.node in (None, node)]


def _all_started(fault: Fault, watch: Watch) -> bool:
    return len(_nodes(fault, watch)) == (watch.size if fault.node is None else 1)


def _pour(output: BinaryIO, size: int) -> None:
    """Writes until the size is reached or the rank has ended."""
    with output, contextlib.suppress(OSError):
        for _ in range(0, size, len(_FLOOD_LINE)):
            output.write(_FLOOD_LINE)


def force_exit(pid: int, code: int) -> None:
    """Makes a running process exit with this code (0 to 255), whatever program it is.

    The process is suspended, and finds the machine code of `exit_group(code)` where it goes on. Linux allows
    that for an ancestor of the same user (ptrace(2), "Ptrace access mode checking").

    Raises:
        OSError: the process has ended or may not be modified, or the architecture is not supported.
    """
    exits = _EXITS.get(platform.machine())
    if exits is None:
        raise OSError(f"found {platform.machine()}, expected one of {', '.join(_EXITS)}")
    os.kill(pid, signal.SIGSTOP)
    try:
        _await_stop(pid)
        program_counter = int(Path(f"/proc/{pid}/syscall").read_text().split()[-1], 16)
        nop, body = exits(code)
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(program_counter - len(nop))  # from where an interrupted system call is restarted
            memory.write(nop + body)
    finally:
        signal_process(pid, signal.SIGCONT)


def _await_stop(pid: int) -> None:
    until = time.monotonic() + _STOP_SECONDS
    while True:
        stat = process_stat(pid)
        state = "X" if stat is None else stat[0]
        if state == "T":  # proc(5): stopped by a signal
            return
        if state in "ZX" or time.monotonic() > until:
            raise OSError(f"process {pid} could not be suspended: its state is {state}")
        time.sleep(0.001)


def _x86_64(code: int) -> tuple[bytes, bytes]:
    """nop; nop / mov edi, code; mov eax, 231; syscall."""
    return b"\x90\x90", b"\xbf%c\0\0\0\xb8\xe7\0\0\0\x0f\x05" % code


def _aarch64(code: int) -> tuple[bytes, bytes]:
    """nop / movz x0, code; movz x8, 94; svc 0."""
    words = (0xD503201F, 0xD2800000 | code << 5, 0xD2800008 | 94 << 5, 0xD4000001)
    nop, *body = (word.to_bytes(4, "little") for word in words)
    return nop, b"".join(body)


_EXITS = {"x86_64": _x86_64, "aarch64": _aarch64}
