"""Tables as other writers make them than those that are rehearsed; and tables as they are packed.

The fields are those of the writers' sources: Volcano's plugin configmap1980 with its HyperJob,
volcano-global's plugin globalranktable, and MindCluster's ascend-operator.
"""

from __future__ import annotations

import base64
import gzip
from typing import Any, Callable

from ma_boot.platform.rank_table.fake_table import WRITERS as REHEARSED, Document, Writer


def packed(text: bytes) -> bytes:
    """The text as Volcano's plugin packs it."""
    return base64.b64encode(gzip.compress(text, mtime=0))


def _of_super_pods(nodes: int, devices: int) -> list[Document]:
    """Volcano's servers with the ids of A3s."""
    servers: list[Document] = REHEARSED["volcano"].document(nodes, devices)["server_list"]
    for server in servers:
        for device in server["device"]:
            device["super_device_id"] = str(16 * int(device["rank_id"]) + 1)
    return servers


def _completed(version: str, servers: list[Document], **more: Any) -> Document:
    count = {"server_count": str(len(servers))}
    return {"status": "completed", "version": version, **count, "server_list": servers, **more}


def _super_pods(servers: list[Document]) -> list[Document]:
    """A super pod of each server, called as the child jobs of a HyperJob."""
    return [
        {"super_pod_id": f"job-fake-train-{i}", "server_list": [{"server_id": server["server_id"]}]}
        for i, server in enumerate(servers)
    ]


def _hyperjob(version: str) -> Callable[[int, int], Document]:
    def document(nodes: int, devices: int) -> Document:
        servers = _of_super_pods(nodes, devices)
        counter = {} if version == "1.2" else {"data_Version": 2}
        return _completed(version, servers, **counter, super_pod_list=_super_pods(servers))

    return document


def _volcano_global(nodes: int, devices: int) -> Document:
    servers = _of_super_pods(nodes, devices)
    for server in servers:
        for device in server["device"]:
            device.update(dpu_ip=f"10.{device['rank_id']}.0.1", numa_id="0")
    pods = _super_pods(servers)
    names = [{"super_pod_id": pod["super_pod_id"]} for pod in pods]
    cluster = {"cluster_id": "c1", "az_id": "a", "region_id": "r", "super_pod_list": names}
    return _completed("1.4", servers, data_version=2, super_pod_list=pods, cluster_list=[cluster])


def _mindcluster_super_pods(nodes: int, devices: int) -> Document:
    document = REHEARSED["mindcluster"].document(nodes, devices)
    for server in document["server_list"]:
        for device in server["device"]:
            device["super_device_id"] = str(16 * int(device["rank_id"]) + 1)
    names = [{"server_id": server["server_id"]} for server in document["server_list"]]
    return {**document, "version": "1.2", "super_pod_list": [{"super_pod_id": "0", "server_list": names}]}


def _mindcluster_levels(nodes: int, devices: int) -> Document:
    """Of an Ascend 950 with RoCE: levels 0 (in the server) and 1 (in the super pod) by EID, 3 by address."""
    ranks = []
    for rank in range(nodes * devices):
        node, local = divmod(rank, devices)
        eid = 0x2000100000DF000000 + 0x1000 * rank
        levels = [
            _level(0, f"0-{node}", "TOPO_FILE_DESC", "EID", f"{eid + 1:032x}", ["0/0"]),
            _level(1, "0", "CLOS", "EID", f"{eid + 9:032x}", ["0/4"]),
            _level(3, "CLUSTER", "CLOS", "IPV4", f"10.{rank // 250}.{rank % 250}.1", []),
        ]
        ranks.append({"rank_id": rank, "local_id": local, "device_id": local, "level_list": levels})
    return {"status": "completed", "version": "2.0", "rank_count": len(ranks), "rank_list": ranks}


def _level(
    layer: int, instance: str, net_type: str, addr_type: str, address: str, ports: list[str]
) -> Document:
    entry = {"addr_type": addr_type, "addr": address, "ports": ports, "plane_id": "0"}
    of_net = {"net_layer": layer, "net_instance_id": instance, "net_type": net_type, "net_attr": ""}
    return {**of_net, "rank_addr_list": [entry]}


_WITHOUT_DATA = REHEARSED["volcano"].before[-1:]
_OPERATOR = REHEARSED["mindcluster"].before

WRITERS: dict[str, Writer] = {
    **REHEARSED,
    "hyperjob-1.2": Writer(_hyperjob("1.2"), _WITHOUT_DATA),
    "hyperjob-1.3": Writer(_hyperjob("1.3"), _WITHOUT_DATA),
    "volcano-global": Writer(_volcano_global, ()),
    "mindcluster-1.2": Writer(_mindcluster_super_pods, _OPERATOR),
    "mindcluster-2.0": Writer(_mindcluster_levels, _OPERATOR),
}
