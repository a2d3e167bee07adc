"""What a launch plan is made of, and what it is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Optional, Sequence, Tuple

from ma_boot.modelarts import JobEnvironment


@dataclass(frozen=True)
class Placement:
    """Which ranks run on this node: `ranks[i]` is the rank of local rank i.

    `devices[i]` is its card as this container counts them, i where that is empty; `device_ids[i]` the card's
    physical number, where the rank table names one. `by_hand` says that the user gave the ranks, outside of
    ModelArts.
    """

    world_size: int
    ranks: Tuple[int, ...]
    table_file: Optional[str]
    device_ids: Tuple[int, ...] = ()
    devices: Tuple[int, ...] = ()
    by_hand: bool = False

    def device(self, local_rank: int) -> int:
        """The card of a local rank, as this container counts them."""
        return self.devices[local_rank] if self.devices else local_rank


@dataclass(frozen=True)
class LaunchOptions:
    """How the processes are started: the options of `ma_boot run` with these names."""

    rendezvous: str = "rank-table"
    rendezvous_port: Optional[int] = None
    per_node: bool = False
    device_id: str = "logical"
    non_sink: bool = False
    workdir: str = "shared"
    copy_code: Tuple[str, ...] = ()
    bind_cores: str = "none"
    tee: str = "all"

    @property
    def starts_ranks(self) -> bool:
        """Whether ma_boot starts each rank itself; if not, the command or `mpirun` does."""
        return not self.per_node and self.rendezvous != "mpi"


@dataclass(frozen=True)
class Node:
    """All that is known of this node when its processes are planned.

    `environ` is the selected environment; `argv` is complete, its program a path; `master` is the address and
    the port where the processes of all nodes meet, on the first node, None where they need none.
    """

    job: JobEnvironment
    placement: Placement
    argv: Sequence[str]
    cwd: str
    environ: Mapping[str, str]
    master: Optional[Tuple[str, int]] = None
    is_root: bool = False


@dataclass(frozen=True)
class WorkerSpec:
    """One process to start: `label` names it in every line, `environ` is its whole environment.

    `rank` and `local_rank` are None for a process that is no rank (the scheduler, mpirun). `shown` says
    whether the node's standard output gets what it prints; `cores` are those it may use, all of them where it
    is empty. `fresh_cwd` says that its directory is its own, and is made anew for it.
    """

    label: str
    argv: Tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]
    log_file: str
    rank: Optional[int] = None
    local_rank: Optional[int] = None
    shown: bool = True
    cores: Tuple[int, ...] = ()
    fresh_cwd: bool = False


@dataclass(frozen=True)
class LaunchPlan:
    """What this node starts, all of it or nothing.

    `ports` are those that its processes will listen at; `copied` are files of the code, each with its place
    in the directory of every rank.
    """

    node_rank: int
    world_size: int
    workers: Tuple[WorkerSpec, ...]
    ports: Tuple[int, ...] = ()
    copied: Tuple[Tuple[str, str], ...] = ()


def placed_by_count(job: JobEnvironment, devices: Tuple[int, ...] = ()) -> Placement:
    """Without a rank table: `MA_NUM_GPUS` processes on each of `MA_NUM_HOSTS` nodes, or one for each of the
    chosen `devices`; one process where no card is counted (a CPU flavor)."""
    each = len(devices) or job.device_count or 1
    first = job.group_rank * each
    return Placement(job.node_count * each, tuple(range(first, first + each)), None, devices=devices)
