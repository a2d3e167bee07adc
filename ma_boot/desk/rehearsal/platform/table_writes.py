"""The writes to each node's rank table file, with the faults of the table among them. Pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob, rank_table
from ma_boot.platform.rank_table import WRITERS

_STEPS = 3  # equal parts of the delay: missing, initializing, half written


@dataclass(frozen=True)
class TableWrite:
    """A write `at` seconds after the start: in place as the platform's controller writes, or by swapping a
    link. `fault` is injected by it."""

    at: float
    node: int
    text: str
    swapped: bool = False
    fault: Fault | None = None


def stages(job: SimulatedJob) -> tuple[str, str, str]:
    """The contents of the file one after the other; before them it does not exist."""
    completed = json.dumps(rank_table(job), indent=4)
    return json.dumps(WRITERS[job.platform].before[-1]), completed[: len(completed) // 2], completed


def writes(
    job: SimulatedJob, nodes: Sequence[int], delay: float, faults: Sequence[Fault] = ()
) -> list[TableWrite]:
    """All writes; the table is completed after `delay` unless a fault changes that."""
    planned: list[TableWrite] = []
    for node in nodes:
        own = [fault for fault in faults if _concerns(fault, node)]
        planned += _faulty(job, node, delay, own[0]) if own else _good(job, node, delay)
    return planned


def renewed(job: SimulatedJob, nodes: Sequence[int], delay: float) -> list[TableWrite]:
    """The writes to existing files after a node was rescheduled: `initializing` first, completed later."""
    status, _, completed = stages(job)
    return [TableWrite(at, node, text) for at, text in ((0.0, status), (delay, completed)) for node in nodes]


def _concerns(fault: Fault, node: int) -> bool:
    return fault.kind == "absent" or (fault.stage == "table" and fault.node in (None, node))


def _good(job: SimulatedJob, node: int, delay: float) -> list[TableWrite]:
    swapped = job.platform == "volcano"  # by its controller: a ConfigMap, whose files are never torn
    return [
        TableWrite(delay * step / _STEPS, node, text, swapped)
        for step, text in enumerate(stages(job), start=1)
        if not (swapped and step == 2)
    ]


def _faulty(job: SimulatedJob, node: int, delay: float, fault: Fault) -> list[TableWrite]:
    """The writes with a fault; the completed table follows only if the fault has an end."""
    completed = stages(job)[-1]
    if fault.kind == "table-late":
        return [TableWrite(fault.lasts or 0.0, node, completed)]
    initializing = TableWrite(delay / _STEPS, node, stages(job)[0])
    if fault.kind == "absent":  # the platform waits for the node, so no table is ever completed
        return [replace(initializing, fault=fault)]
    lacking = TableWrite(delay, node, json.dumps(_without_pod(job, fault.pod or 0)), fault=fault)
    later = [] if fault.lasts is None else [TableWrite(delay + fault.lasts, node, completed)]
    return [initializing, lacking, *later]


def _without_pod(job: SimulatedJob, pod: int) -> dict[str, Any]:
    """The job's table without one of its pods, but consistent in itself."""
    document = copy.deepcopy(rank_table(job))
    if "group_list" not in document:
        del document["server_list"][pod]
        devices = (device for server in document["server_list"] for device in server["device"])
        for rank, device in enumerate(devices):
            device["rank_id"] = str(rank)
        return {**document, "server_count": str(len(document["server_list"]))}
    group = document["group_list"][0]
    pods = [entry for entry in group["instance_list"] if not entry["pod_name"].endswith(f"-{pod}")]
    group["instance_list"] = pods
    group["instance_count"] = str(len(pods))
    group["device_count"] = str(sum(len(entry["devices"]) for entry in pods))
    return document
