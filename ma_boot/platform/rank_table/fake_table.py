"""Generates tables for jobs that do not exist, as each platform writes them: for rehearsals and tests.

The fields are those of the writers' sources: ModelArts, Volcano's plugin configmap1980, and MindCluster's
ascend-operator.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

Document = dict[str, Any]


def fake(
    nodes: int,
    devices_per_node: int,
    pod_name: Callable[[int], str] = "ma-job-fake-worker-{}".format,
    server_id: Callable[[int], str] = lambda node: f"192.168.{node // 250}.{1 + node % 250}",
) -> Document:
    """Makes a completed document of template two, with pods in reverse order: no order is guaranteed."""
    instances: list[dict[str, Any]] = [
        {
            "devices": [
                {"device_id": str(device), "device_ip": device_ip(node, device)}
                for device in range(devices_per_node)
            ],
            "pod_name": pod_name(node),
            "server_id": server_id(node),
        }
        for node in reversed(range(nodes))
    ]
    group = {
        "device_count": str(nodes * devices_per_node),
        "group_name": "worker",
        "instance_count": str(nodes),
        "instance_list": instances,
    }
    return {"group_count": "1", "group_list": [group], "status": "completed"}


def device_ip(node: int, device: int) -> str:
    """Makes the address of a card: each card of a server is in its own network, as in ModelArts' samples."""
    return f"192.{1 + device}.{node // 250}.{1 + node % 250}"


def _volcano(nodes: int, devices: int) -> Document:
    servers = [
        {
            "server_id": f"192.168.{node // 250}.{1 + node % 250}",
            "device": [
                {
                    "device_id": str(device),
                    "device_ip": device_ip(node, device),
                    "rank_id": str(node * devices + device),
                }
                for device in range(devices)
            ],
        }
        for node in range(nodes)
    ]
    count = {"server_count": str(nodes)}
    return {"status": "completed", "version": "1.0", **count, "server_list": servers}


def _mindcluster(nodes: int, devices: int) -> Document:
    document = _volcano(nodes, devices)
    for node, server in enumerate(document["server_list"]):
        server.update(
            server_id=f"6f1c0a2e-0000-4000-8000-{node:012d}",
            host_ip=server["server_id"],
            container_ip=f"172.16.{node // 250}.{1 + node % 250}",
        )
    return document


class Writer(NamedTuple):
    """A platform's writer of tables: the completed document, and the states of the file before it."""

    document: Callable[[int, int], Document]
    before: tuple[Document, ...]


_ONLY_STATUS = {"status": "initializing"}
_WITHOUT_DATA = {"status": "initializing", "version": "1.0", "server_count": "", "server_list": None}

# By the name of the platform.
WRITERS: dict[str, Writer] = {
    "modelarts": Writer(fake, (_ONLY_STATUS,)),
    "volcano": Writer(_volcano, (_ONLY_STATUS, _WITHOUT_DATA)),
    "mindcluster": Writer(_mindcluster, ({"status": "initializing", "version": "1.0"},)),
}
