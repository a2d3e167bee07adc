"""The starts of a rehearsed job: the first one, and those that the platform makes after a fault. Pure."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from ma_boot.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.rehearsal.platform.simulated_job import rank_table as first_table


@dataclass(frozen=True)
class Counts:
    """How often the platform has put a node on a machine (`MA_SCHEDULE_CNT`), and has started the boot
    command in the container that it has there (`MA_PROC_START_CNT`)."""

    scheduled: int = 1
    started: int = 1


@dataclass(frozen=True)
class SeenJob(SimulatedJob):
    """The job as its processes see it at one of its starts: `counts` by node.

    With `exact` they have the platform's own paths. A node that was scheduled anew has another address.
    """

    counts: Tuple[Counts, ...] = ()
    exact: bool = False

    def node_root(self, node: int) -> str:
        """The root of the file system, or the directory that plays it."""
        return "/" if self.exact else super().node_root(node)

    def address(self, node: int) -> str:
        """Another one in 127.0.0.0/8 each time that the node is put on a machine."""
        _, rest = super().address(node).split(".0.", 1)
        return f"127.{self.counts[node].scheduled - 1}.{rest}"


def seen(job: SimulatedJob, counts: Tuple[Counts, ...], exact: bool) -> SeenJob:
    """The job at the start with these counts."""
    return SeenJob(job.uuid, job.root, job.nodes, job.devices_per_node, counts, exact)


def first_start(nodes: int) -> Tuple[Counts, ...]:
    """Every node for the first time."""
    return (Counts(),) * nodes


def restarted(counts: Tuple[Counts, ...]) -> Tuple[Counts, ...]:
    """In place: the boot command again, in the same containers."""
    return tuple(Counts(count.scheduled, count.started + 1) for count in counts)


def rescheduled(counts: Tuple[Counts, ...], node: Optional[int]) -> Tuple[Counts, ...]:
    """One node in a new container elsewhere, the others in place; without a node, all in new containers."""
    return tuple(
        Counts(count.scheduled + 1) if node in (None, number) else Counts(count.scheduled, count.started + 1)
        for number, count in enumerate(counts)
    )


def rank_table(job: SeenJob) -> Dict[str, Any]:
    """The completed table at this start.

    Of a node that was scheduled anew the controller takes the entry out by swapping it with the last one,
    and appends the new one; its server and its devices have other addresses.
    """
    table = copy.deepcopy(first_table(job))
    pods = table["group_list"][0]["instance_list"]
    for node, count in enumerate(job.counts):
        if count.scheduled == 1:
            continue
        place = next(i for i, pod in enumerate(pods) if pod["server_id"] == job.address(node))
        pods[place], pods[-1] = pods[-1], pods[place]
        for device in pods[-1]["devices"]:
            device["device_ip"] = f"{191 + count.scheduled}.{device['device_ip'].partition('.')[2]}"
    return table
