"""The writes to each node's rank table file, with the faults of the table among them. Pure."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ma_boot.desk.rehearsal.faults import Fault
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob, StartCounts, rank_table
from ma_boot.platform.rank_table import WRITERS

_STEPS = 3  # equal parts of the delay: missing, initializing, half written
_SWAP_SECONDS = 0.02
_SWAPPING_SECONDS = 3.0  # the default of for= of table-rewritten
_COMPLETED_SECONDS = 0.1  # before a table regresses


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
    """The writes with a fault: the wrong content when the table would be completed, then the right one."""
    table, (status, half, completed) = rank_table(job), stages(job)
    later = [] if fault.lasts is None else [TableWrite(delay + fault.lasts, node, completed)]
    before = TableWrite(delay / _STEPS, node, status)
    wrong = {
        "table-torn": half,
        "table-empty": "",
        "table-lacks": json.dumps(_without_pod(table, fault.pod)),
        "table-wrong": json.dumps(_with_duplicate(table)),
    }
    if fault.kind in wrong:
        return [before, TableWrite(delay, node, wrong[fault.kind], fault=fault), *later]
    if fault.kind == "table-late":
        return [TableWrite(fault.lasts or 0.0, node, completed)]
    if fault.kind == "table-stale":
        return [TableWrite(0.0, node, json.dumps(_of_earlier_attempt(job)), fault=fault), *later]
    if fault.kind == "table-regresses":
        lasts = 1.0 if fault.lasts is None else fault.lasts
        return [
            TableWrite(delay, node, completed),
            TableWrite(delay + _COMPLETED_SECONDS, node, status, fault=fault),
            TableWrite(delay + _COMPLETED_SECONDS + lasts, node, completed),
        ]
    if fault.kind == "table-rewritten":
        return list(_swaps(node, status, completed, delay, fault))
    return [TableWrite(delay / _STEPS, node, status, fault=fault)]  # absent, table-never


def _swaps(node: int, status: str, completed: str, delay: float, fault: Fault) -> Iterator[TableWrite]:
    end = delay + (_SWAPPING_SECONDS if fault.lasts is None else fault.lasts)
    for number in itertools.takewhile(lambda n: n * _SWAP_SECONDS <= end, itertools.count()):
        at = number * _SWAP_SECONDS
        yield TableWrite(at, node, completed if at >= delay else status, True, fault if number == 0 else None)


def _changed(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A copy of the table, and its pods or servers, which may be changed."""
    document = copy.deepcopy(dict(table))
    if "group_list" in document:
        return document, document["group_list"][0]["instance_list"]
    return document, document["server_list"]


def _devices(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = pod["devices"] if "devices" in pod else pod["device"]
    return devices


def _without_pod(table: Mapping[str, Any], pod: int | None) -> dict[str, Any]:
    document, pods = _changed(table)
    if "group_list" not in document:
        del pods[pod or 0]
        for rank, device in enumerate(device for server in pods for device in server["device"]):
            device["rank_id"] = str(rank)
        return {**document, "server_count": str(len(pods))}
    pods[:] = [entry for entry in pods if not entry["pod_name"].endswith(f"-{pod}")]
    group = document["group_list"][0]
    group["instance_count"] = str(len(pods))
    group["device_count"] = str(sum(len(entry["devices"]) for entry in pods))
    return document


def _with_duplicate(table: Mapping[str, Any]) -> dict[str, Any]:
    document, pods = _changed(table)
    devices = [device for pod in pods for device in _devices(pod)]
    for device in devices:
        device["device_ip"] = devices[0]["device_ip"]
    return document


def _of_earlier_attempt(job: SimulatedJob) -> dict[str, Any]:
    """The table of another job, on machines where this one never is."""
    counts = (StartCounts(scheduled=50),) * job.nodes
    shape = (job.nodes, job.devices_per_node, job.platform)
    return rank_table(SimulatedJob("of-an-earlier-attempt", job.root, *shape, counts=counts))
