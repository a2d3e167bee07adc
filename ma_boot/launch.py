"""From the job, its table and the command to a launch plan: one `WorkerSpec` for each process. Pure."""

from __future__ import annotations

import os.path
import shlex
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ma_boot.errors import ConfigError
from ma_boot.job import JobEnvironment
from ma_boot.patch import Patch, applied, difference
from ma_boot.secrets import masked

RENDEZVOUS = ("rank-table", "mindspore")
HCCL_CONNECT_TIMEOUT = "1800"  # as the official launcher; HCCL's own 120 s is shorter than a node's start


@dataclass(frozen=True)
class Placement:
    """Which ranks run on this node: `ranks[i]` is the rank of local rank i, `device_ids[i]` the physical
    number of its card where the rank table names one."""

    world_size: int
    ranks: Tuple[int, ...]
    table_file: Optional[str]
    device_ids: Tuple[int, ...] = ()


@dataclass(frozen=True)
class WorkerSpec:
    """One process to start: `label` names it in every line, `environ` is its whole environment.

    `rank` and `local_rank` are None for a process that is no rank (the scheduler). `shown` says whether the
    node's standard output gets what it prints; `cores` are those it may use, all of them where it is empty.
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


@dataclass(frozen=True)
class LaunchPlan:
    """What this node starts, all of it or nothing."""

    node_rank: int
    world_size: int
    workers: Tuple[WorkerSpec, ...]


def placed_by_count(job: JobEnvironment) -> Placement:
    """Without a rank table: `MA_NUM_GPUS` processes on each of `MA_NUM_HOSTS` nodes; one process where no
    card is counted (a CPU flavor)."""
    each = job.device_count or 1
    first = job.node_rank * each
    return Placement(job.node_count * each, tuple(range(first, first + each)), None)


def rank_environment(
    rendezvous: str,
    job: JobEnvironment,
    placement: Placement,
    local_rank: int,
    scheduler: Tuple[str, int],
    given: Mapping[str, str],
) -> Patch:
    """What one rank gets besides the selected environment (design, section 6).

    `scheduler` is the address and port of MindSpore's scheduler; `given` is the environment so far, which
    the user's own settings for HCCL and the process log are taken from.
    """
    rank = placement.ranks[local_rank]
    device = str(local_rank)  # logical: 0..n-1 in this container, as the official launcher counts
    patch: Dict[str, Optional[str]] = {
        "LOCAL_RANK": str(local_rank),
        "DEVICE_ID": device,
        "ASCEND_DEVICE_ID": device,
        "MABOOT_FAILURE_FILE": job.failure_file,
    }
    if rendezvous == "mindspore":
        patch.update(_cluster(placement, scheduler), MS_ROLE="MS_WORKER", MS_NODE_ID=str(rank))
    else:
        patch.update(
            RANK_TABLE_FILE=placement.table_file,
            RANK_ID=str(rank),
            RANK_SIZE=str(placement.world_size),
            JOB_ID=job.name,
        )
        patch["HCCL_CONNECT_TIMEOUT"] = given.get("HCCL_CONNECT_TIMEOUT") or HCCL_CONNECT_TIMEOUT
        patch["ASCEND_PROCESS_LOG_PATH"] = given.get("ASCEND_PROCESS_LOG_PATH") or os.path.join(
            job.log_dir, job.name, "ascend", "process_log", f"rank_{rank}"
        )
    return tuple(patch.items())


def _cluster(placement: Placement, scheduler: Tuple[str, int]) -> Dict[str, Optional[str]]:
    """MindSpore's dynamic cluster; a rank table beside it would be taken for the rendezvous."""
    address, port = scheduler
    return {
        "MS_WORKER_NUM": str(placement.world_size),
        "MS_SCHED_HOST": address,
        "MS_SCHED_PORT": str(port),
        "RANK_TABLE_FILE": None,
        "RANK_ID": None,
        "RANK_SIZE": None,
    }


def plan_launch(
    job: JobEnvironment,
    placement: Placement,
    argv: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    rendezvous: str,
    scheduler: Tuple[str, int],
) -> LaunchPlan:
    """One process for each rank of this node; with MindSpore's dynamic cluster, its scheduler on node 0.

    `environ` is the selected environment; `argv` is complete, its program a path. Log files have the
    platform's names, which other tools parse. Raises `ConfigError` for a node without a device.
    """
    if not placement.ranks:
        raise ConfigError(f"node {job.node_rank} has no device in the rank table: nothing to start")
    workers: List[WorkerSpec] = []
    if rendezvous == "mindspore" and job.node_rank == 0:
        workers.append(
            WorkerSpec(
                label="scheduler",
                argv=tuple(argv),
                cwd=cwd,
                environ=applied(environ, (*_cluster(placement, scheduler).items(), ("MS_ROLE", "MS_SCHED"))),
                log_file=os.path.join(job.log_dir, f"{job.name}-scheduler.txt"),
            )
        )
    for local_rank, rank in enumerate(placement.ranks):
        patch = rank_environment(rendezvous, job, placement, local_rank, scheduler, environ)
        workers.append(
            WorkerSpec(
                label=f"rank {rank}",
                argv=tuple(argv),
                cwd=cwd,
                environ=applied(environ, patch),
                log_file=os.path.join(job.log_dir, f"{job.name}-proc-rank-{rank}-device-{local_rank}.txt"),
                rank=rank,
                local_rank=local_rank,
            )
        )
    return LaunchPlan(job.node_rank, placement.world_size, tuple(workers))


def with_cores(plan: LaunchPlan, cores: Sequence[Tuple[int, ...]]) -> LaunchPlan:
    """The plan with each rank bound to its cores, by local rank."""
    workers = (
        worker if worker.local_rank is None else replace(worker, cores=cores[worker.local_rank])
        for worker in plan.workers
    )
    return replace(plan, workers=tuple(workers))


def with_tee(plan: LaunchPlan, tee: str) -> LaunchPlan:
    """The plan with those processes shown that `tee` names: `all`, `first` (rank of the node), `none`, or
    ranks as `0,3`. The scheduler is shown with the first rank."""
    named = set(map(int, tee.split(","))) if tee[:1].isdigit() else set()

    def shown(worker: WorkerSpec) -> bool:
        return tee == "all" or (tee == "first" and not worker.local_rank) or worker.rank in named

    return replace(plan, workers=tuple(replace(worker, shown=shown(worker)) for worker in plan.workers))


def described(plan: LaunchPlan, outside: Mapping[str, str]) -> Dict[str, Any]:
    """The plan for people and programs; the environment as what differs from `outside`, secrets masked.

    A variable that is taken away has the value None.
    """
    return {
        "node": plan.node_rank,
        "world_size": plan.world_size,
        "workers": [
            {
                "label": worker.label,
                "rank": worker.rank,
                "local_rank": worker.local_rank,
                "argv": list(worker.argv),
                "cwd": worker.cwd,
                "log_file": worker.log_file,
                "shown": worker.shown,
                "cores": list(worker.cores),
                "environment": masked(dict(difference(outside, worker.environ))),
            }
            for worker in plan.workers
        ],
    }


def plan_text(descriptions: Sequence[Mapping[str, Any]]) -> str:
    """The plans of some nodes for people: `+` sets a variable, `-` takes it away."""
    lines: List[str] = []
    for node in descriptions:
        lines.append(
            f"node {node['node']}: {len(node['workers'])} processes, world size {node['world_size']}"
        )
        for worker in node["workers"]:
            lines.append(f"  {worker['label']}")
            lines.append(f"    argv  {shlex.join(worker['argv'])}")
            lines.append(f"    cwd   {worker['cwd']}")
            lines.append(f"    log   {worker['log_file']}" + ("" if worker["shown"] else " (only)"))
            if worker["cores"]:
                lines.append(f"    cores {','.join(map(str, worker['cores']))}")
            for name, value in worker["environment"].items():
                lines.append(f"    - {name}" if value is None else f"    + {name}={value}")
    return "\n".join(lines)
