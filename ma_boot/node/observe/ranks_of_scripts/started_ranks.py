"""The ranks that a command has started: looks at /proc, handles, and what is known of their ends."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress

from ma_boot.node.observe.rank_stacks.stacks import UNKNOWN_CODE
from ma_boot.node.scripts.job_processes import JobProcesses, log_file_of
from ma_boot.node.scripts.rank_output import RankOutput, read_tail
from ma_boot.node.scripts.script_rank import find_ranks
from ma_boot.node.scripts.script_state import Key, RankEnd, ScriptRank, ScriptRanksState
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.control_group import OomCounters
from ma_boot.processes.orphan_guard import process_stat

# Seconds between two looks while the number of ranks changes, and afterwards.
LOOK_SECONDS = (0.5, 5.0)
# Seconds without a new rank or an end after which looks become rare.
SETTLED_SECONDS = 15.0


class StartedRanks:
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
        # An ended process keeps its pid until its parent has read the exit code.
        zombies = {end.rank.process.key for end in state.ended}
        for process in ranks:
            rank = state.running.get(process.key)
            if rank is None and process.number is not None:
                is_orphan = process.parent == os.getpid() and process.number.rank in ended
                if process.key in self._below | zombies or is_orphan:
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
        return RankEnd(rank, now, code, output=output, oom=oom, stopping=self.is_stopping)

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
