"""Ranks by the environments of processes. Pure.

Start scripts and launchers give each rank its number by a variable: `RANK_ID` with `DEVICE_ID` or `RANK_SIZE`
(the scripts of Ascend's model zoos), `RANK` with `LOCAL_RANK` or `WORLD_SIZE` (torchrun, accelerate,
DeepSpeed), `OMPI_COMM_WORLD_RANK` (Open MPI), `PMI_RANK` (MPICH), `MS_NODE_ID` with `MS_ROLE` (msrun).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class RankVariables(NamedTuple):
    """Variables of one way to start ranks.

    `rank` is set to a number that the command was not given; one of `beside` is set too, if there are any.
    """

    rank: str
    beside: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    world_size: str = ""


WAYS = (
    RankVariables("RANK", ("LOCAL_RANK", "WORLD_SIZE"), ("LOCAL_RANK",), "WORLD_SIZE"),
    RankVariables("RANK_ID", ("DEVICE_ID", "RANK_SIZE"), ("DEVICE_ID",), "RANK_SIZE"),
    RankVariables("OMPI_COMM_WORLD_RANK", (), ("OMPI_COMM_WORLD_LOCAL_RANK",), "OMPI_COMM_WORLD_SIZE"),
    RankVariables("PMI_RANK", (), (), "PMI_SIZE"),
    RankVariables("MS_NODE_ID", ("MS_ROLE",), (), "MS_WORKER_NUM"),
)
# Variables of an environment that are read: of the ranks, and ma_boot's own marker of its job.
NAMES = frozenset(
    name for way in WAYS for name in (way.rank, *way.beside, *way.local_rank, way.world_size) if name
)


class RankNumber(NamedTuple):
    """Numbers of a rank; None where the environment has none."""

    rank: int
    local_rank: int | None = None
    world_size: int | None = None


class Process(NamedTuple):
    """A process of the job: `key` are its pid and start time, which tell a reused pid.

    `number` is None for a process that has no variables of a rank; `group` is its process group.
    """

    pid: int
    started: str
    parent: int
    is_python: bool = False
    number: RankNumber | None = None
    group: int = 0

    @property
    def key(self) -> tuple[int, str]:
        """Identity of the process, also after its pid was given to another one."""
        return self.pid, self.started


def read_number(environ: Mapping[str, str], given: Mapping[str, str]) -> RankNumber | None:
    """Returns the rank's numbers by its environment; None for a process that is no rank.

    `given` is the environment of the command: variables that the command already had make no rank.
    """
    for way in WAYS:
        text = environ.get(way.rank, "")
        names = {way.rank, *way.beside, *way.local_rank}
        is_new = any(environ.get(name) != given.get(name) for name in names)
        if text.isdecimal() and is_new and (not way.beside or any(name in environ for name in way.beside)):
            local = next((environ[name] for name in way.local_rank if name in environ), "")
            return RankNumber(int(text), _number(local), _number(environ.get(way.world_size, "")))
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def find_ranks(processes: Iterable[Process]) -> list[Process]:
    """Returns the process of each rank.

    Data loaders inherit the variables of their rank, a script around the rank has them, too, and a rank may
    start processes with other numbers (engines of an inference server). So the uppermost process with numbers
    is the rank; of a script with the same number around a Python process it is the Python process. An
    exception is a launcher to which `RANK` gives the number of its node: it has no local rank, and processes
    below it have one.
    """
    by_pid = {process.pid: process for process in processes}
    launchers = {
        above.pid
        for process in by_pid.values()
        if process.number is not None and process.number.local_rank is not None
        for above in _ancestors(process, by_pid)
        if above.number is not None and above.number.local_rank is None
    }
    chains: dict[int, list[tuple[int, Process]]] = {}
    for process in by_pid.values():
        if process.number is None or process.pid in launchers:
            continue
        above = [one for one in _ancestors(process, by_pid) if one.number and one.pid not in launchers]
        top = above[-1] if above else process
        if top.number is not None and process.number.rank == top.number.rank:
            chains.setdefault(top.pid, []).append((len(above), process))
    return [min(chain, key=lambda one: (not one[1].is_python, one[0]))[1] for chain in chains.values()]


def _ancestors(process: Process, by_pid: Mapping[int, Process]) -> list[Process]:
    """Returns the processes of the job above this one, the nearest first."""
    found: list[Process] = []
    above = by_pid.get(process.parent)
    # A pid that was reused between two reads of /proc could make a circle.
    while above is not None and above not in found:
        found.append(above)
        above = by_pid.get(above.parent)
    return found
