"""Launch plan, the values from which it is made, and its form as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ma_boot.node.environment.command_words import TrainingCommand
from ma_boot.node.environment.patch import difference
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.redact import masked


class Placement(NamedTuple):
    """The ranks of this node: `ranks[i]` is the rank of local rank i.

    `devices[i]` is the number of its card within this container, i if the tuple is empty. `device_ids[i]` is
    the card's physical number, if there is a rank table. `by_hand`: the user gave the ranks. `server_id` is
    this node's in the table, None without a table.
    """

    world_size: int
    ranks: tuple[int, ...]
    table_file: str | None
    device_ids: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    by_hand: bool = False
    server_id: str | None = None

    def device(self, local_rank: int) -> int:
        """Returns the number of a local rank's card within this container."""
        return self.devices[local_rank] if self.devices else local_rank


class Node(NamedTuple):
    """Values from which the launch plan of a node is made.

    `environ` is the selected environment; `master` are address and port of the rendezvous on the first node,
    None without a rendezvous.
    """

    job: JobEnvironment
    placement: Placement
    command: TrainingCommand
    cwd: str
    environ: Mapping[str, str]
    master: tuple[str, int] | None = None
    is_root: bool = False


class WorkerSpec(NamedTuple):
    """A process to start: `label` is its name in the output, `environ` its complete environment.

    `rank` and `local_rank` are None for the scheduler, mpirun and a command that starts the ranks. `shown`:
    its output is copied to standard output. `cores` are those that it may use, all if empty. `fresh_cwd`:
    `cwd` is created for this process alone. `starts_ranks`: it is meant to start ranks. `leaves_ranks`: it
    may leave ranks, or a training, in the background when it ends. `starts_ray`: it runs `ray start`, and the
    training runs below node 0's command alone: the commands of the other nodes hold Ray's workers, and may
    never end.
    """

    label: str
    argv: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]
    log_file: str
    rank: int | None = None
    local_rank: int | None = None
    shown: bool = True
    cores: tuple[int, ...] = ()
    fresh_cwd: bool = False
    starts_ranks: bool = False
    leaves_ranks: bool = False
    starts_ray: bool = False


class LaunchPlan(NamedTuple):
    """Processes that a node starts, all or none.

    They will listen on `ports`. `copied` are files of the code, each with its path in the directory of every
    rank. `code` is the directory of the script, None without one.
    """

    node_rank: int
    world_size: int
    workers: tuple[WorkerSpec, ...]
    ports: tuple[int, ...] = ()
    copied: tuple[tuple[str, str], ...] = ()
    code: str | None = None


def place_by_count(job: JobEnvironment, devices: tuple[int, ...] = ()) -> Placement:
    """Assigns ranks without a rank table: one for each of `devices`, or else `MA_NUM_GPUS` on each node.

    A platform without a number of cards (a CPU flavor) has one rank per node.
    """
    each = len(devices) or job.device_count or 1
    first = job.group_rank * each
    return Placement(job.node_count * each, tuple(range(first, first + each)), None, devices=devices)


def describe_plan(plan: LaunchPlan, outside: Mapping[str, str]) -> dict[str, Any]:
    """Returns the plan as JSON values, with environments as differences from `outside`, and masked secrets.

    The value of a removed variable is None.
    """
    return {
        "node": plan.node_rank,
        "world_size": plan.world_size,
        "workers": [
            {
                "label": worker.label,
                "rank": worker.rank,
                "local_rank": worker.local_rank,
                "argv": masked(worker.argv),
                "cwd": worker.cwd,
                "log_file": worker.log_file,
                "shown": worker.shown,
                "cores": list(worker.cores),
                "environment": masked(difference(outside, worker.environ)),
            }
            for worker in plan.workers
        ],
    }
