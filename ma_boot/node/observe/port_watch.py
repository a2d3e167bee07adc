"""Port watch: names the process of this user that holds a port which a rank could not bind."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence

from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.sockets import listening_sockets, sockets_of
from ma_boot.report.explain import output_lines
from ma_boot.report.result import WorkerExit
from ma_boot.wording import Message

_IN_USE = r"EADDRINUSE|[Aa]ddress already in use|already been bound|EJ0003|EI0019"
# Of PyTorch, Gloo, sockets, HCCL and servers.
_PORT = r"(?i)(?:\bport(?: number)?[ :=]{1,3}|\]:|\d:|', |localhost:)(\d{1,5})\b"
_LAST_LINES = 60
# Source lines in a traceback: Python's own exception does not name the port.
_BINDS = r"\b(?:bind|listen|create_server|\w{0,40}Server)\(.{0,200}?\b(\d{4,5})\b"


class PortWatch:
    """Looks for the holder as soon as a rank has failed: the stop of all ranks may free the port."""

    without = "the holder of a port in use is not named"

    def __init__(self) -> None:
        self._advice: dict[str, str] = {}
        self._seen: set[str] = set()

    def patience(self) -> float:
        """Never asks to be called: each end of a rank calls `check`."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Looks at the ranks that have failed since the last call; never stops a run."""
        of_ranks = [ended for worker in workers for ended in worker.failed_ranks]
        ends = [*of_ranks, *(worker.exit for worker in workers if worker.exit is not None)]
        for ended in ends:
            if ended.code and ended.label not in self._seen:
                self._seen.add(ended.label)
                advice = next(filter(None, map(_holder_of, _ports_in_use(ended.output))), "")
                if advice:
                    self._advice[ended.label] = advice
        return ""

    def advice(self, failure: WorkerExit | None) -> tuple[str, ...]:
        """Returns what is known of the port that this process could not bind."""
        known = self._advice.get(failure.label) if failure is not None else None
        return (known,) if known is not None else ()

    def close(self) -> None:
        """Has no resources."""


def _ports_in_use(output: str) -> Iterator[int]:
    """Yields the ports in lines about an address in use, the last line first, then those of source lines."""
    if not re.search(_IN_USE, output):
        return
    lines = output_lines(output)[: -_LAST_LINES - 1 : -1]
    named = [line for line in lines if re.search(_IN_USE, line)]
    for pattern, searched in ((_PORT, named), (_BINDS, lines)):
        yield from (int(port) for line in searched for port in re.findall(pattern, line))


def _holder_of(port: int) -> str:
    """Names the process that listens on a port; empty if it is none of this user, or has ended."""
    inodes = listening_sockets(port)
    if not inodes:
        return ""
    pids = (int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid())
    pid = next((pid for pid in pids if not inodes.isdisjoint(sockets_of(pid))), None)
    if pid is None:
        return ""
    from ma_boot.node.scripts.job_processes import command_of
    from ma_boot.node.scripts.leftovers import describe_process

    words = command_of(pid)
    return Message.of(
        "port {} is held by {}: end it, or choose another port", port, describe_process(pid, words)
    )
