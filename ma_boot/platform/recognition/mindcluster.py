"""MindCluster: variables of its ascend-operator in the container `ascend` of an AscendJob, or of a vcjob.

`RANK` and `MS_NODE_RANK` are numbers of nodes, `LOCAL_RANK` is a list, and `MASTER_ADDR` is the address of a
service that forwards `MASTER_PORT` alone (Ascend/mind-cluster, ascend-operator, env.go).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ma_boot.platform.recognition import volcano
from ma_boot.platform.recognition.place import NodePlace, Surroundings, VariableReader
from ma_boot.platform.recognition.volcano import has_table
from ma_boot.wording import ranks_text

# Variables for: all ranks, ranks of a node, number of the node, master, its port.
_FRAMEWORKS = (
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"),
    ("MS_WORKER_NUM", "MS_LOCAL_WORKER", "MS_NODE_RANK", "MS_SCHED_HOST", "MS_SCHED_PORT"),
    ("CM_WORKER_SIZE", "CM_LOCAL_WORKER", "CM_RANK", "CM_CHIEF_IP", "CM_CHIEF_PORT"),
)
_NODE_VARIABLES = (
    *(name for names in _FRAMEWORKS for name in names),
    *("LOCAL_RANK", "MS_ROLE", "MS_SERVER_NUM", "CM_CHIEF_DEVICE", "CM_WORKER_IP"),
)


def read_place(around: Surroundings, problems: list[str]) -> NodePlace:
    """Reads MindCluster's variables, and those of Volcano's plugins, which a vcjob has."""
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
        reading.put("devices", count_visible_devices(reading), "ASCEND_VISIBLE_DEVICES")
    why = _without_cards(reading)
    if why:
        problems.append(
            f"{why}: this pod has no NPUs, but variables of the workers; run the training's "
            "own command in it, not ma_boot, or give it NPUs"
        )
    # Volcano's reader also reads POD_UID, POD_IP and HOST_IP. A vcjob of MindCluster is in no HyperJob.
    whole = volcano.read_place(around, problems)._replace(is_part=False)
    own = reading.place().completed_by(whole)
    if own.node is not None and own.nodes is None and not has_table(around):
        # The operator writes no sizes for a vNPU.
        problems.append(
            f"{own.sources['node']} is {own.node}, but the number of nodes is unknown: set MA_NUM_HOSTS "
            "by the job's YAML"
        )
    return own


def _without_cards(reading: VariableReader) -> str:
    """Returns the variables by which this pod has no NPUs; empty if it may have some (env.go)."""
    if reading.value("NPU_POD") == "false":
        return "NPU_POD is false"
    role = reading.value("REPLICA_TYPE")
    cards = reading.value("ASCEND_VISIBLE_DEVICES", "HCCL_LOGIC_SUPERPOD_ID")
    if role in ("Master", "Chief") and not cards:
        return f"REPLICA_TYPE is {role}, without ASCEND_VISIBLE_DEVICES and HCCL_LOGIC_SUPERPOD_ID"
    return ""


def node_variables(around: Surroundings) -> tuple[str, ...]:
    """Returns the variables of the node with names that the training takes for those of a rank."""
    return _NODE_VARIABLES


def count_visible_devices(reading: VariableReader) -> int | None:
    """Counts the cards in `ASCEND_VISIBLE_DEVICES`: `0,1`, `0-3`, `Ascend910-0,Ascend910-1` or `void`."""
    text = reading.value("ASCEND_VISIBLE_DEVICES")
    if text is None:
        return None
    count = 0
    for part in map(str.strip, text.split(",")):
        span = re.fullmatch(r"(\d+)-(\d+)", part)
        count += int(span.group(2)) - int(span.group(1)) + 1 if span else part not in ("", "void")
    return count


# MindCluster's request to the containers of a job that recovers in place: ClusterD and the device plugin
# write the file, and mirror it into the containers (Ascend/mind-cluster, taskd).
RESET_FILE = "/user/restore/reset/config/reset.json"
_UNSUPPORTED = "and RestartFaultProcess asks to restart that process alone, which ma_boot does not do"


class Reset(NamedTuple):
    """One state of the file: global ranks by their status, and the request.

    `flushing`: faults are still being collected. `round` grows with each restart of all processes.
    `graceful`: save a checkpoint and end. `only_faulty`: restart the faulty processes only.
    """

    faulty: frozenset[int] = frozenset()
    unrecovered: frozenset[int] = frozenset()
    round: int = 0
    flushing: bool = False
    graceful: bool = False
    only_faulty: bool = False

    def closed_to(self, ranks: Collection[int]) -> str:
        """Returns the reason why a node with these ranks must not start processes now; empty if it may."""
        if self.flushing:
            return "faults are still being collected (FaultFlushing)"
        waiting = {*self.faulty.intersection(ranks), *self.unrecovered}
        return f"not recovered yet: {ranks_text(waiting)}" if waiting else ""

    def ends(self, ranks: Collection[int], before: Reset) -> str:
        """Returns the reason to end a node with these ranks, started at the state `before`; or empty."""
        if self.graceful and not before.graceful:
            return "GracefulExit: save a checkpoint and end"
        own = self.faulty.intersection(ranks)
        if not own:
            return ""
        reason = f"a fault of {ranks_text(own)} on this node"
        return f"{reason}, {_UNSUPPORTED}" if self.only_faulty else reason

    def restarts(self, before: Reset) -> str:
        """Returns the reason to restart all processes, which were started at the state `before`; or empty."""
        if self.unrecovered:
            return f"{ranks_text(self.unrecovered)} must recover (unrecovered)"
        return f"RetryTime is {self.round}, was {before.round}" if self.round > before.round else ""


def parse_reset(text: str) -> Reset | None:
    """Parses the file; None for an incomplete document, which is a moment of its writing."""
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
