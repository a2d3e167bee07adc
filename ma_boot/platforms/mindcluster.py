"""MindCluster: what its ascend-operator sets in the container `ascend` of an AscendJob, and a vcjob's YAML.

`RANK` and `MS_NODE_RANK` are numbers of nodes, `LOCAL_RANK` is a list, and `MASTER_ADDR` is the address of a
service that forwards `MASTER_PORT` alone (Ascend/mind-cluster, ascend-operator, env.go).
"""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ma_boot.platforms import volcano
from ma_boot.platforms.facts import Around, Fact, Facts, add, addresses_in, nodes_of

TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
MINDSPORE = (
    *("MS_LOCAL_WORKER", "MS_WORKER_NUM", "MS_NODE_RANK", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_SERVER_NUM"),
    "MS_ROLE",
)
TENSORFLOW = (
    *("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_SIZE", "CM_LOCAL_WORKER"),
    *("CM_WORKER_IP", "CM_RANK"),
)
_FRAMEWORKS = (  # names of: all ranks, ranks of a node, number of the node, master, its port
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"),
    ("MS_WORKER_NUM", "MS_LOCAL_WORKER", "MS_NODE_RANK", "MS_SCHED_HOST", "MS_SCHED_PORT"),
    ("CM_WORKER_SIZE", "CM_LOCAL_WORKER", "CM_RANK", "CM_CHIEF_IP", "CM_CHIEF_PORT"),
)


def facts(around: Around, problems: List[str]) -> Facts:
    """What MindCluster says, and Volcano's plugins where the job is a vcjob."""
    found: Facts = {}
    add(found, "job", around.given("MINDX_TASK_ID"), problems)
    add(found, "uid", around.given("POD_UID"), problems)
    add(found, "host", around.given("XDL_IP", "HOST_IP"), problems)
    add(found, "addresses", addresses_in(around, "POD_IP"), problems)
    for world, local, number, master, port in _FRAMEWORKS:
        add(found, "nodes", nodes_of(around, world, local, problems), problems)
        for what, name in (("devices", local), ("node", number), ("port", port)):
            if around.number(name, problems) is not None:
                add(found, what, around.given(name), problems)
        add(found, "master", around.given(master), problems)
    if "devices" not in found:
        add(found, "devices", visible_devices(around), problems)
    if around.environ.get("MS_ROLE") == "MS_SCHED" and not around.given("MS_LOCAL_WORKER"):
        problems.append(
            "MS_ROLE is MS_SCHED and there is no MS_LOCAL_WORKER: this pod has no NPUs, and is to run "
            "MindSpore's scheduler alone; run the training's own command in it, not ma_boot, or give it NPUs"
        )
    for what, fact in volcano.facts(around, problems).items():
        if what not in found and not (what == "part" and "nodes" in found):
            found[what] = fact
    return found


def per_node(around: Around) -> Tuple[str, ...]:
    """The variables that are the node's, by names that mean a rank to the training."""
    return (*TORCH, *MINDSPORE, *TENSORFLOW)


def visible_devices(around: Around) -> Optional[Fact]:
    """How many cards `ASCEND_VISIBLE_DEVICES` names: `0,1`, `0-3`, `Ascend910-0,Ascend910-1` or `void`."""
    found = around.given("ASCEND_VISIBLE_DEVICES")
    if found is None:
        return None
    count = 0
    for part in found.value.split(","):
        span = re.fullmatch(r"(\d+)-(\d+)", part.strip())
        count += int(span.group(2)) - int(span.group(1)) + 1 if span else part.strip() not in ("", "void")
    return Fact(str(count), found.source)
