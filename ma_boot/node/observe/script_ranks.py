"""Observer of the ranks that a command starts itself: their ends, and their numbers in the job.

/proc --look--> ScriptRanksState --judged--> failures: `Worker.failed_ranks`, which stop the run
                    |
                    `--> NodeRanks --> message to node 0 --> find_wrong_numbers: `error`, which stops the run
"""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ma_boot.errors import ConfigError
from ma_boot.node.observe.peers import Peers
from ma_boot.node.observe.stacks import UNKNOWN_CODE
from ma_boot.node.scripts.job_processes import JobProcesses, log_file_of
from ma_boot.node.scripts.rank_numbers import JobShape, NodeRanks, find_wrong_numbers
from ma_boot.node.scripts.rank_output import RankOutput, read_tail
from ma_boot.node.scripts.script_rank import find_ranks
from ma_boot.node.scripts.script_state import Key, RankEnd, ScriptRank, ScriptRanksState
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.control_group import OomCounters
from ma_boot.processes.orphan_guard import process_stat
from ma_boot.report.journal import Journal
from ma_boot.report.result import RunResult, WorkerExit
from ma_boot.wording import Message

# Seconds between two looks while the number of ranks changes, and afterwards.
LOOK_SECONDS = (0.5, 5.0)
# Seconds without a new rank or an end after which looks become rare.
SETTLED_SECONDS = 15.0
# Nanoseconds between a rank's end and that of its command: causes are ordered by milliseconds.
BEFORE_NS = 2_000_000

# Seconds after the end of node 0 in which its peers end, too, if they are no servers.
LEADER_SECONDS = 10.0

# Exit code of a process that ma_boot has stopped.
BY_SIGTERM = 128 + signal.SIGTERM

CHECK, REPORT, OFF = "check", "report", "off"


class ScriptOptions(NamedTuple):
    """Options for script ranks.

    With `action` `check`, failures and wrong numbers stop the run; with `report` they are only reported; with
    `off` script ranks are not looked for. A rank's end is judged after `grace` seconds.
    """

    action: str = CHECK
    grace: float = 30.0


class ScriptRanks:
    """Observer of the ranks below a command that runs once per node; without such a command it is idle.

    `marker` is carried by all processes of this run, which is the `attempt`-th one of the job. `error` is the
    reason of a stop for wrong numbers.
    """

    without = "ranks of the start script are not watched"

    def __init__(
        self,
        options: ScriptOptions,
        shape: JobShape,
        marker: str,
        *,
        attempt: int,
        peers: Peers,
        journal: Journal,
    ) -> None:
        self.error: ConfigError | None = None
        self._options = options
        self._shape = shape
        self._marker = marker
        self._attempt = attempt
        self._peers = peers
        self._journal = journal
        self._state = ScriptRanksState()
        self._nodes: dict[int, NodeRanks] = {peers.node: NodeRanks()}
        self._watched: _Watched | None = None
        # True once the command was stopped because that of node 0 has ended.
        self._is_released = False
        # Time at which the end of node 0 was noticed, and infinity once it was reported.
        self._leader_ended: float | None = None

    def patience(self) -> float:
        """Seconds until the next look or judgement."""
        if self._watched is None:
            return LOOK_SECONDS[0] if self._options.action != OFF else math.inf
        now = time.monotonic()
        judged = self._state.next_judgement(self._options.grace)
        leader = math.inf if self._leader_ended is None else self._leader_ended + LEADER_SECONDS
        due = min(self._watched.next_look, math.inf if judged is None else judged, leader)
        return max(0.0, due - now)

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Looks for ranks and judges ends; returns the reason to stop for wrong numbers, mostly empty."""
        command = next((worker for worker in workers if is_start_command(worker)), None)
        if command is None or self._options.action == OFF:
            self._options = self._options._replace(action=OFF)
            return ""
        if self._watched is None:
            self._watched = _Watched(command, self._marker)
        self._watched.is_stopping = stopping
        now = time.monotonic()
        self._take_ends(self._watched, now)
        if now >= self._watched.next_look:
            self._look(self._watched, now)
        if stopping:
            return ""
        return self._judge(self._watched, now) or self._follow_leader(self._watched.command, now)

    def _follow_leader(self, command: Worker, now: float) -> str:
        """Returns the reason to stop a command that only works for node 0 (by Ray), once that has ended.

        Any other command may have work of its own, so its wait is only reported, after some time: nodes of
        one job seldom end at the same moment.
        """
        code = self._peers.leader_exit
        # A command that has only started Ray's daemons holds them until node 0 needs them no longer.
        command.is_held = (
            command.spec.starts_ray and code is None and bool(self._peers.node and self._peers.others)
        )
        if code is None or command.exit is not None:
            return ""
        if command.spec.starts_ray:
            self._is_released = code == 0
            return Message.of(
                "node 0 has ended with {}, and the command of this node held workers for it", code
            )
        if code:
            return ""
        self._leader_ended = now if self._leader_ended is None else self._leader_ended
        if now >= self._leader_ended + LEADER_SECONDS:
            self._leader_ended = math.inf
            self._journal.warn(
                Message.of("node 0 has ended with 0; still waiting for the command of this node to end")
            )
        return ""

    def close(self) -> None:
        """Takes the last ends, and reports to node 0 that this node's command has ended."""
        if self._watched is None:
            return
        now = time.monotonic()
        self._take_ends(self._watched, now)
        self._look(self._watched, now)
        own = self._nodes[self._peers.node]
        self._nodes[self._peers.node] = own._replace(ended=True)
        self._send()
        self._watched.close()

    def result(self, run: RunResult) -> RunResult:
        """Returns the result of the run with the ends of script ranks that explain it."""
        if self._watched is None:
            return run
        exits = merged(run.exits, self._state.failures(), self._watched.command)
        self._record_ends(exits, self._watched.command)
        if self._is_released:
            return run._replace(is_released=True)
        self._receive()
        error = self.error or (self._wrong_numbers(time.monotonic()) if run.succeeded else None)
        if error is not None and self._options.action == CHECK:
            return run._replace(not_started=run.not_started or error)
        return run._replace(exits=exits)

    def _record_ends(self, exits: Sequence[WorkerExit], command: Worker) -> None:
        """Writes the end of each script rank as an event; the exit code is null where it is not known."""
        reported = {ended.pid: ended for ended in exits}
        has_succeeded = command.exit is not None and command.exit.code == 0
        for end in self._state.ended:
            ended = exit_of(end, command)
            ended = reported.get(ended.pid, ended._replace(stopped=end.stopping))
            is_known = end.code is not None or ended.pid in reported
            unknown = BY_SIGTERM if end.stopping else 0 if has_succeeded else None
            code = ended.code if is_known else unknown
            self._journal.event(
                "exit", label=ended.label, rank=ended.rank, pid=ended.pid, code=code, signal=ended.signal,
                seconds=ended.seconds, ended_ns=ended.ended_ns, stopped=ended.stopped, oom=ended.oom,
            )  # fmt: skip

    def _look(self, watched: _Watched, now: float) -> None:
        found, new = watched.look(self._state, now)
        for rank in new:
            self._journal.event(
                "start", label=f"rank {rank.number.rank}", rank=rank.number.rank, pid=rank.process.pid,
                cores=[], log_file=rank.log_file or watched.command.spec.log_file,
            )  # fmt: skip
        for label, number in watched.newly_printing():
            self._journal.event("first-output", label=label, rank=number, first_ns=time.monotonic_ns())
        self._state = self._state.with_found(found)
        for gone in set(self._state.running) - {rank.process.key for rank in found}:
            self._end(watched, gone, now)
        before = self._nodes[self._peers.node]
        own = before.with_running(self._state.running.values(), now)
        self._nodes[self._peers.node] = own
        if own.running != before.running:
            self._send()
        watched.plan_look(now, has_changed=own.running != before.running)

    def _take_ends(self, watched: _Watched, now: float) -> None:
        for key in watched.ended():
            if key in self._state.running:
                self._end(watched, key, now)

    def _end(self, watched: _Watched, key: Key, now: float) -> None:
        self._state = self._state.with_end(watched.end_of(self._state.running[key], now))
        watched.plan_look(now, has_changed=True)

    def _judge(self, watched: _Watched, now: float) -> str:
        """Reports ends that are due, and wrong numbers; returns the reason to stop for the latter."""
        self._state, judgement = self._state.judged(now, self._options.grace)
        for end in judgement.silent:
            self._journal.warn(
                Message.of(
                    "rank {} (pid {}) has ended while other ranks of the command still run; its exit code is "
                    "known to the command alone",
                    end.rank.number.rank,
                    end.rank.process.pid,
                )
            )
        for end in judgement.failed:
            self._report_failure(end, now)
        if judgement.failed and self._options.action == CHECK:
            failed = [exit_of(end, watched.command) for end in judgement.failed]
            watched.command.failed_ranks += failed
            return Message.of("{} {}", failed[0].label, failed[0].how())
        self._receive()
        error = self._wrong_numbers(now)
        if error is None or self.error is not None:
            return ""
        self.error = error
        if self._options.action == REPORT:
            self._journal.warn(str(error))
            return ""
        return str(error)

    def _report_failure(self, end: RankEnd, now: float) -> None:
        rank, pid, seconds = end.rank.number.rank, end.rank.process.pid, f"{now - end.when:.0f}"
        text = "rank {} (pid {}) of the command has failed, and other ranks have run on for {} s"
        self._journal.warn(Message.of(text, rank, pid, seconds))

    def _send(self) -> None:
        if self._peers.others:
            own = self._nodes[self._peers.node]
            self._peers.tell("ranks", {**own.fields(), "attempt": self._attempt})

    def _receive(self) -> None:
        """Takes the numbers of other nodes; those of an earlier attempt may arrive late."""
        for message in self._peers.heard_of_ranks():
            ranks = NodeRanks.decode(message.body, message.when)
            if ranks is not None and message.body.get("attempt") == self._attempt:
                self._nodes[message.node] = ranks

    def _wrong_numbers(self, now: float) -> ConfigError | None:
        known = self._nodes if not self._peers.node else {self._peers.node: self._nodes[self._peers.node]}
        return find_wrong_numbers(self._shape, known, now)


class _Watched:
    """A command and its processes: the handles of its ranks, and the time of the next look."""

    def __init__(self, command: Worker, marker: str) -> None:
        self.command = command
        self.next_look = 0.0
        self.is_stopping = False
        self._processes = JobProcesses(marker, command.spec.environ)
        self._changed = time.monotonic()
        self._oom = OomCounters()
        self._outputs: dict[Key, RankOutput] = {}
        self._printing: set[RankOutput] = set()
        # Data loaders and the like: when their rank has ended, they may live on, and are no ranks then.
        self._below: set[Key] = set()
        self._keys: dict[int, Key] = {}
        self._poll = select.poll()

    def look(self, state: ScriptRanksState, now: float) -> tuple[list[ScriptRank], list[ScriptRank]]:
        """Returns the running ranks, and those among them that are new."""
        found, new = [], []
        processes = self._processes.look({pid for pid, _ in state.running})
        ranks = find_ranks(processes)
        ended = {end.rank.number.rank for end in state.ended}
        for process in ranks:
            rank = state.running.get(process.key)
            if rank is None and process.number is not None:
                is_orphan = process.parent == os.getpid() and process.number.rank in ended
                if process.key in self._below or is_orphan:
                    continue
                rank = ScriptRank(process, process.number, log_file_of(process.pid), now)
                new.append(rank)
                self._open(process.pid, process.key)
                self._outputs[process.key] = RankOutput(rank.number.rank, process.pid, rank.log_file)
                self.command.started_ranks.append(self._outputs[process.key])
            found += [rank] if rank is not None else []
        self._below.update({one.key for one in processes if one.number} - {rank.key for rank in ranks})
        return found, new

    def newly_printing(self) -> list[tuple[str, int]]:
        """Returns labels and numbers of the ranks whose own files have output since the last call."""
        printing = [
            output for output in self._outputs.values() if output not in self._printing and output.since(0)[0]
        ]
        self._printing.update(printing)
        return [(output.label, output.rank) for output in printing]

    def plan_look(self, now: float, *, has_changed: bool) -> None:
        """Sets the time of the next look."""
        self._changed = now if has_changed else self._changed
        self.next_look = now + LOOK_SECONDS[now - self._changed >= SETTLED_SECONDS]

    def ended(self) -> list[Key]:
        """Returns the ranks that have ended since the last call, without a look at /proc."""
        ended = []
        for descriptor, _ in self._poll.poll(0):
            self._poll.unregister(descriptor)
            os.close(descriptor)
            ended.append(self._keys.pop(descriptor))
        return ended

    def end_of(self, rank: ScriptRank, now: float) -> RankEnd:
        """Returns the end of a rank that does not run any more."""
        log = rank.log_file
        # Its last lines may still be in the pipe.
        self.command.output.take()
        output = self.command.output.tail() if log is None else read_tail(log)
        oom = None if self.is_stopping else self._oom.evidence()
        code = self._code_of(rank)
        self._outputs[rank.process.key].code = UNKNOWN_CODE if code is None else code
        return RankEnd(rank, now, code, output, oom, self.is_stopping)

    def close(self) -> None:
        """Closes the handles."""
        for descriptor in self._keys:
            os.close(descriptor)
        self._keys.clear()

    def _open(self, pid: int, key: Key) -> None:
        with suppress(OSError):  # before Linux 5.3, or the process has just ended: the next look finds that
            descriptor = os.pidfd_open(pid)
            self._keys[descriptor] = key
            self._poll.register(descriptor, select.POLLIN)

    def _code_of(self, rank: ScriptRank) -> int | None:
        """Returns the exit code of a rank: of an adopted one, or while its parent has not reaped it yet."""
        pid, started = rank.process.key
        if pid in self.command.reaped:
            return self.command.reaped[pid]
        stat = process_stat(pid)
        # Field 52 of /proc/PID/stat, as waitpid(2) returns it; 0 for a reader without the permission.
        if stat is None or stat[0] != "Z" or stat[19] != started or len(stat) < 50:
            return None
        status = int(stat[49])
        return None if status == 0 else status >> 8 if status & 0x7F == 0 else 128 + (status & 0x7F)


def is_start_command(worker: Worker) -> bool:
    """Returns whether a worker is a command that starts the ranks of its node."""
    return worker.spec.rank is None and worker.spec.starts_ranks


def exit_of(end: RankEnd, command: Worker) -> WorkerExit:
    """Returns the end of a script rank as that of a process which ma_boot has started.

    An unknown exit code is 1, as after an exception, or 137 after an OOM kill.
    """
    code = end.code if end.code is not None else 137 if end.oom is not None else 1
    pid = end.rank.process.pid
    ended_ns = int(end.when * 1e9)
    return WorkerExit(
        label=f"rank {end.rank.number.rank}",
        rank=end.rank.number.rank,
        device=end.rank.number.local_rank,
        pid=pid,
        code=code,
        signal=code - 128 if code > 128 and end.code is not None else None,
        ended_ns=ended_ns,
        seconds=max(0.0, end.when - end.rank.seen),
        stopped=False,
        log_file=end.rank.log_file or command.spec.log_file,
        output=end.output,
        oom=end.oom,
    )


def merged(
    exits: Sequence[WorkerExit], failures: Sequence[RankEnd], command: Worker
) -> tuple[WorkerExit, ...]:
    """Adds the ends of failed ranks to those of the processes, in order of time.

    The exit code of the command is its own word: after a success the ranks have code 0, too, but their output
    shows the failure that the command hides. A rank of which the code is unknown has that of the command.
    """
    by_command = next((ended for ended in exits if ended.pid == command.pid), None)
    known = {ended.pid for ended in exits}
    if by_command is None or by_command.stopped:
        return tuple(exits)
    added = []
    for end in failures:
        ended = exit_of(end, command)
        # The end may have been noticed after that of the command, which follows from it.
        ended = ended._replace(ended_ns=min(ended.ended_ns, by_command.ended_ns - BEFORE_NS))
        if by_command.code == 0:
            # The command's own output is looked at anyway.
            added += [ended._replace(code=0, signal=None)] if end.rank.log_file is not None else []
        else:
            added.append(ended if end.code is not None else ended._replace(code=by_command.code))
    new = [ended for ended in added if ended.pid not in known]
    return tuple(sorted([*exits, *new], key=lambda ended: ended.ended_ns))
