"""What is written into each node's rank table file, and when, under the faults that were ordered. Pure."""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ma_boot.rehearsal.faults import Fault

INITIALIZING = '{"status":"initializing"}'
_EARLY = 3  # parts of the delay: missing, initializing, half written
_SWAP_SECONDS = 0.02
_SWAPS_SECONDS = 3.0  # for how long a table is replaced when no time is given
_REGRESS_SECONDS = 0.1  # a table that is completed and initializing again was completed for so long


@dataclass(frozen=True)
class Write:
    """At `at` seconds after the start, a node's file gets this content: in place as the platform's controller
    writes, or by swapping a link (`swapped`). `fault` comes with it."""

    at: float
    node: int
    text: str
    swapped: bool = False
    fault: Optional[Fault] = None


def stages(table: Mapping[str, Any]) -> Tuple[str, ...]:
    """The contents that the file goes through; before the first one it is missing."""
    completed = json.dumps(table, indent=4)
    return (INITIALIZING, completed[: len(completed) // 2], completed)


def writes(
    table: Mapping[str, Any], nodes: Sequence[int], delay: float, faults: Sequence[Fault] = ()
) -> List[Write]:
    """All writes in the order of their time: completed after `delay`, unless a fault says otherwise."""
    found: List[Write] = []
    for node in nodes:
        own = [fault for fault in faults if _concerns(fault, node)]
        found += _faulty(table, node, delay, own[0]) if own else _good(table, node, delay)
    return sorted(found, key=lambda write: write.at)


def renewed(table: Mapping[str, Any], nodes: Sequence[int], delay: float) -> List[Write]:
    """After a node was scheduled anew: `initializing` in the files that are there, and completed later."""
    return [Write(at, node, stages(table)[which]) for at, which in ((0.0, 0), (delay, 2)) for node in nodes]


def _concerns(fault: Fault, node: int) -> bool:
    return fault.kind == "absent" or (fault.stage == "table" and fault.node in (None, node))


def _good(table: Mapping[str, Any], node: int, delay: float) -> List[Write]:
    return [Write(delay * number / _EARLY, node, text) for number, text in enumerate(stages(table), start=1)]


def _faulty(table: Mapping[str, Any], node: int, delay: float, fault: Fault) -> List[Write]:
    """The writes under one fault: the wrong content once the table would be completed, then the right one."""
    status, half, completed = stages(table)
    later = [] if fault.lasts is None else [Write(delay + fault.lasts, node, completed)]
    before = Write(delay / _EARLY, node, status)
    wrong = {
        "table-torn": half,
        "table-empty": "",
        "table-lacks": json.dumps(_without(table, fault.pod)),
        "table-wrong": json.dumps(_doubled(table)),
    }
    if fault.kind in wrong:
        return [before, Write(delay, node, wrong[fault.kind], fault=fault), *later]
    if fault.kind == "table-late":
        return [Write(fault.lasts or 0.0, node, completed)]
    if fault.kind == "table-stale":
        return [Write(0.0, node, json.dumps(_of_another(table)), fault=fault), *later]
    if fault.kind == "table-regresses":
        lasts = 1.0 if fault.lasts is None else fault.lasts
        return [
            Write(delay, node, completed),
            Write(delay + _REGRESS_SECONDS, node, status, fault=fault),
            Write(delay + _REGRESS_SECONDS + lasts, node, completed),
        ]
    if fault.kind == "table-rewritten":
        return list(_swaps(node, status, completed, delay, fault))
    return [Write(delay / _EARLY, node, status, fault=fault)]  # absent, table-never


def _swaps(node: int, status: str, completed: str, delay: float, fault: Fault) -> Iterator[Write]:
    end = delay + (_SWAPS_SECONDS if fault.lasts is None else fault.lasts)
    for number in itertools.takewhile(lambda n: n * _SWAP_SECONDS <= end, itertools.count()):
        at = number * _SWAP_SECONDS
        yield Write(at, node, completed if at >= delay else status, True, fault if number == 0 else None)


def _changed(table: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """A copy, and the group in it."""
    document = copy.deepcopy(dict(table))
    return document, document["group_list"][0]


def _without(table: Mapping[str, Any], pod: Optional[int]) -> Dict[str, Any]:
    document, group = _changed(table)
    kept = [one for one in group["instance_list"] if not one["pod_name"].endswith(f"-{pod}")]
    group["instance_list"] = kept
    group["instance_count"] = str(len(kept))
    group["device_count"] = str(sum(len(one["devices"]) for one in kept))
    return document


def _doubled(table: Mapping[str, Any]) -> Dict[str, Any]:
    document, group = _changed(table)
    devices = [device for pod in group["instance_list"] for device in pod["devices"]]
    for device in devices:
        device["device_ip"] = devices[0]["device_ip"]
    return document


def _of_another(table: Mapping[str, Any]) -> Dict[str, Any]:
    document, group = _changed(table)
    for number, pod in enumerate(group["instance_list"]):
        pod.update(pod_name=f"ma-job-of-an-earlier-attempt-{number + 1000}", server_id=f"10.0.0.{number + 1}")
    return document
