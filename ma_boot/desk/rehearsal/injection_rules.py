"""Rules of injection: the moment of each fault, and the signals that inject it. Pure.

events of the job ──> JobState ──> is_due ──> signals_of ──> sent by the Injector
                          └──────> why_not_injected, once the job has ended
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.node_processes import StartedNode, StartedRank
from ma_boot.report.timeline.events import Event

# Kinds that are injected by signals; those of the rank table, OBS and disks take effect elsewhere.
INJECTED = frozenset({"kill", "raise", "hang", "lost", "bad-card", "rescheduled", "restart", "stop"})
# Kinds after which the platform starts the job again.
RESTARTS = frozenset({"rescheduled", "restart"})
# Seconds between SIGTERM and SIGKILL: the default of Kubernetes; the documents of ModelArts state none.
GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class JobState:
    """One start of a job with `size` nodes: the nodes and ranks that have started, by their numbers."""

    size: int
    nodes: Mapping[int, StartedNode] = field(default_factory=dict)
    ranks: Mapping[int, StartedRank] = field(default_factory=dict)

    def after_event(self, event: Event) -> JobState:
        """Returns the state after an event of the rehearsal itself, which starts the nodes."""
        if event["kind"] != "start":
            return self
        node = int(event["label"].split()[1])
        started = StartedNode(event["pid"], event["monotonic_ns"] / 1e9, node)
        return replace(self, nodes={**self.nodes, node: started})

    def after_event_of(self, node: int, event: Event, log_dir: Path) -> JobState:
        """Returns the state after an event of a node, whose logs are in `log_dir`."""
        kind, rank = event["kind"], event.get("rank")
        if not isinstance(rank, int):
            is_phase = kind == "phase-start" and node in self.nodes
            return self._with_phase(node, event["phase"]) if is_phase else self
        if kind == "start":
            # A sandboxed node knows the directory of its logs by another path.
            log = log_dir / os.path.basename(event["log_file"])
            return self._with_rank(rank, StartedRank(event["pid"], event["monotonic_ns"] / 1e9, node, log))
        if kind == "exit" and rank in self.ranks:
            return self._with_rank(rank, replace(self.ranks[rank], has_ended=True))
        return self

    def after_lines(self, rank: int, lines: int) -> JobState:
        """Returns the state after a rank has printed so many lines in all."""
        return self._with_rank(rank, replace(self.ranks[rank], lines=lines))

    def _with_phase(self, node: int, phase: str) -> JobState:
        entered = replace(self.nodes[node], phases=self.nodes[node].phases | {phase})
        return replace(self, nodes={**self.nodes, node: entered})

    def _with_rank(self, number: int, rank: StartedRank) -> JobState:
        return replace(self, ranks={**self.ranks, number: rank})

    def nodes_of(self, fault: Fault) -> list[StartedNode]:
        """The started node of a fault; all of them if the fault names none."""
        return [node for number, node in self.nodes.items() if fault.node in (None, number)]

    def ranks_of(self, fault: Fault) -> list[StartedRank]:
        """The started ranks, in order, of which the first running one is the fault's target."""
        if fault.stage == "rank":
            return [rank for number, rank in self.ranks.items() if number == fault.rank]
        if fault.kind == "bad-card":
            return [rank for _, rank in sorted(self.ranks.items()) if rank.node == fault.node]
        return []

    def has_started(self, fault: Fault) -> bool:
        """Returns whether all nodes of a fault have started."""
        return len(self.nodes_of(fault)) == (self.size if fault.node is None else 1)


def has_target_rank(fault: Fault) -> bool:
    """Returns whether a fault is injected into a running rank."""
    return fault.stage == "rank" or fault.kind == "bad-card"


def is_due(fault: Fault, state: JobState, now: float) -> bool:
    """Returns whether a fault is due at `now` (seconds on the monotonic clock).

    The default is as soon as its rank or nodes have started.
    """
    if fault.stage == "rank":
        ranks = state.ranks_of(fault)
        if fault.line is not None:
            return any(rank.lines >= fault.line for rank in ranks)
        return any(now >= rank.started + (fault.at or 0.0) for rank in ranks)
    if not state.has_started(fault):
        return False
    nodes = state.nodes_of(fault)
    # All nodes must have entered the phase: a node that is killed as it starts leaves no events.
    if fault.phase is not None:
        return all(fault.phase in node.phases for node in nodes)
    return now >= max(node.started for node in nodes) + (fault.at or 0.0)


class PlannedSignal(NamedTuple):
    """A signal to a rank, with its children or alone, or to a node, `after` some seconds.

    Without a target it goes to the rehearsal itself, which forwards it to all nodes.
    """

    signum: signal.Signals
    target: StartedRank | StartedNode | None
    after: float = 0.0
    with_children: bool = False


def signals_of(fault: Fault, state: JobState, rank: StartedRank | None) -> list[PlannedSignal]:
    """Returns the signals that inject a fault; `rank` is the running one of `ranks_of`."""
    nodes = state.nodes_of(fault)
    chosen = signal.Signals[f"SIG{fault.signal or 'KILL'}"]
    if fault.kind == "kill":
        return [PlannedSignal(chosen, rank)]
    if fault.kind == "raise":
        return [PlannedSignal(signal.SIGINT, rank)]  # Python's handler raises KeyboardInterrupt
    if fault.kind == "bad-card":
        return [PlannedSignal(signal.SIGABRT, rank)]  # as the driver ends the process that uses the card
    if fault.kind == "hang":
        suspend = PlannedSignal(signal.SIGSTOP, rank, with_children=True)
        resume = PlannedSignal(signal.SIGCONT, rank, after=fault.lasts or 0.0, with_children=True)
        return [suspend] if fault.lasts is None else [suspend, resume]
    if fault.kind == "stop":
        # A stop of all nodes goes through the rehearsal, which forwards it once: at a second signal, a node
        # gives up its upload.
        first = PlannedSignal(signal.SIGTERM, None if fault.node is None else nodes[0])
        grace = GRACE_SECONDS if fault.grace is None else fault.grace
        return [first, *(PlannedSignal(signal.SIGKILL, node, after=grace) for node in nodes)]
    if fault.kind == "restart":
        return [PlannedSignal(chosen, node) for node in state.nodes.values()]
    # lost, rescheduled: the guard of a killed ma_boot kills everything that it started.
    return [PlannedSignal(signal.SIGKILL, node) for node in nodes]


def why_not_injected(fault: Fault, state: JobState) -> str:
    """Returns the reason why a fault was not injected in a start that has ended."""
    if fault.stage == "rank":
        ranks = state.ranks_of(fault)
        if not ranks:
            return f"rank {fault.rank} was never started"
        if fault.line is not None:
            return f"rank {fault.rank} printed only {ranks[0].lines} lines"
        return f"rank {fault.rank} had already ended"
    if fault.stage == "obs":
        return "no such request was made"
    if fault.follows_failures:
        return "the job has not failed"
    if fault.stage == "node" and not state.has_started(fault):
        return "not every node was started"
    nodes = state.nodes_of(fault)
    if fault.phase is not None and not all(fault.phase in node.phases for node in nodes):
        return f"phase {fault.phase} did not begin on every such node"
    return "the job had already ended"
