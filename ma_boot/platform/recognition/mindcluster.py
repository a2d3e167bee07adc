"""MindCluster: what its ascend-operator sets in the container `ascend` of an AscendJob, and a vcjob's YAML.

`RANK` and `MS_NODE_RANK` are numbers of nodes, `LOCAL_RANK` is a list, and `MASTER_ADDR` is the address of a
service that forwards `MASTER_PORT` alone (Ascend/mind-cluster, ascend-operator, env.go).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ma_boot.platform.recognition import volcano
from ma_boot.platform.recognition.place import Around, NodePlace, VariableReader
from ma_boot.platform.recognition.volcano import knows_table
from ma_boot.wording import ranks_text

_FRAMEWORKS = (  # names of: all ranks, ranks of a node, number of the node, master, its port
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"),
    ("MS_WORKER_NUM", "MS_LOCAL_WORKER", "MS_NODE_RANK", "MS_SCHED_HOST", "MS_SCHED_PORT"),
    ("CM_WORKER_SIZE", "CM_LOCAL_WORKER", "CM_RANK", "CM_CHIEF_IP", "CM_CHIEF_PORT"),
)
_PER_NODE = (
    *(name for names in _FRAMEWORKS for name in names),
    *("LOCAL_RANK", "MS_ROLE", "MS_SERVER_NUM", "CM_CHIEF_DEVICE", "CM_WORKER_IP"),
)


def place(around: Around, problems: list[str]) -> NodePlace:
    """What MindCluster tells, and Volcano's plugins where the job is a vcjob."""
    reading = VariableReader(around, problems)
    reading.text("job", "MINDX_TASK_ID")
    reading.text("host", "XDL_IP")
    for world, local, number, master, port in _FRAMEWORKS:
        count, each = reading.number(world, 1), reading.number(local, 1)
        if count is not None and each is not None:
            if count % each:
                problems.append(f"{world} is {count}, which is no multiple of {local}, {each}")
            reading.put("nodes", count // each, f"{world} / {local}")
        reading.put("devices", each, local)
        reading.count("node", number)
        reading.count("port", port)
        reading.text("master", master)
    if "devices" not in reading:
        reading.put("devices", visible_devices(reading), "ASCEND_VISIBLE_DEVICES")
    why = _without_cards(reading)
    if why:
        problems.append(
            f"{why}: this pod has no NPUs, but variables of the workers; run the training's "
            "own command in it, not ma_boot, or give it NPUs"
        )
    # With POD_UID, POD_IP and HOST_IP, and without a HyperJob, which is never around a vcjob.
    whole = volcano.place(around, problems)._replace(is_part=False)
    own = reading.place().completed_by(whole)
    if own.node is not None and own.nodes is None and not knows_table(around):
        problems.append(  # of a vNPU: the operator writes no sizes then
            f"{own.sources['node']} is {own.node}, but nothing tells how many nodes the job has: set "
            "MA_NUM_HOSTS by the job's YAML"
        )
    return own


def _without_cards(reading: VariableReader) -> str:
    """By which variables this pod of an AscendJob has no NPUs; empty if it may have some (env.go)."""
    if reading.value("NPU_POD") == "false":
        return "NPU_POD is false"
    role = reading.value("REPLICA_TYPE")
    cards = reading.value("ASCEND_VISIBLE_DEVICES", "HCCL_LOGIC_SUPERPOD_ID")
    if role in ("Master", "Chief") and not cards:
        return f"REPLICA_TYPE is {role}, without ASCEND_VISIBLE_DEVICES and HCCL_LOGIC_SUPERPOD_ID"
    return ""


def per_node(around: Around) -> tuple[str, ...]:
    """The variables that are the node's, by names that mean a rank to the training."""
    return _PER_NODE


def visible_devices(reading: VariableReader) -> int | None:
    """How many cards `ASCEND_VISIBLE_DEVICES` names: `0,1`, `0-3`, `Ascend910-0,Ascend910-1` or `void`."""
    text = reading.value("ASCEND_VISIBLE_DEVICES")
    if text is None:
        return None
    count = 0
    for part in map(str.strip, text.split(",")):
        span = re.fullmatch(r"(\d+)-(\d+)", part)
        count += int(span.group(2)) - int(span.group(1)) + 1 if span else part not in ("", "void")
    return count


# `reset.json` is what MindCluster asks of a container whose job recovers without a new one: ClusterD and the
# device plugin write it, and mirror it into the container (Ascend/mind-cluster, taskd).
RESET_FILE = "/user/restore/reset/config/reset.json"
_UNSUPPORTED = "and RestartFaultProcess asks to restart that process alone, which ma_boot does not do"


class Reset(NamedTuple):
    """One state of the file: global ranks by their status, and what is asked for.

    `flushing` says that faults are still collected; `round` grows each time that all processes are to start
    anew; `graceful` asks to save a checkpoint and to end; `only_faulty` to restart no process but the faulty.
    """

    faulty: frozenset[int] = frozenset()
    unrecovered: frozenset[int] = frozenset()
    round: int = 0
    flushing: bool = False
    graceful: bool = False
    only_faulty: bool = False

    def closed_to(self, ranks: Collection[int]) -> str:
        """Why a node with these ranks must not start processes now; empty if it may."""
        if self.flushing:
            return "faults are still being collected (FaultFlushing)"
        waiting = {*self.faulty.intersection(ranks), *self.unrecovered}
        return f"not recovered yet: {ranks_text(waiting)}" if waiting else ""

    def ends(self, ranks: Collection[int], before: Reset) -> str:
        """Why a node with these ranks, started at the state `before`, is to end; empty if it is not."""
        if self.graceful and not before.graceful:
            return "GracefulExit: save a checkpoint and end"
        own = self.faulty.intersection(ranks)
        if not own:
            return ""
        reason = f"a fault of {ranks_text(own)} on this node"
        return f"{reason}, {_UNSUPPORTED}" if self.only_faulty else reason

    def restarts(self, before: Reset) -> str:
        """Why all processes are to start anew, that were started at the state `before`; empty if not."""
        if self.unrecovered:
            return f"{ranks_text(self.unrecovered)} must recover (unrecovered)"
        return f"RetryTime is {self.round}, was {before.round}" if self.round > before.round else ""


def parse_reset(text: str) -> Reset | None:
    """The state in the text; None for what is no whole document, which is a moment of its writing."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    return Reset(
        faulty=_ranks(document, "fault"),
        unrecovered=_ranks(document, "unrecovered"),
        round=_number(document.get("RetryTime")),
        flushing=document.get("FaultFlushing") is True,
        graceful=_number(document.get("GracefulExit")) == 1,
        only_faulty=document.get("RestartFaultProcess") is True,
    )


def _ranks(document: Mapping[str, Any], status: str) -> frozenset[int]:
    listed = document.get("RankList")
    entries: list[Any] = listed if isinstance(listed, list) else []
    named = (entry for entry in entries if isinstance(entry, dict) and entry.get("Status") == status)
    return frozenset(rank for rank in (entry.get("RankId") for entry in named) if type(rank) is int)


def _number(value: Any) -> int:
    return value if type(value) is int else 0
