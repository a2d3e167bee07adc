"""Tables of jobs that do not exist: for rehearsals, tests, and trying things out."""

from __future__ import annotations

from typing import Any, Callable, Dict, List


def fake(
    nodes: int,
    devices_per_node: int,
    pod_name: Callable[[int], str] = "ma-job-fake-worker-{}".format,
    server_id: Callable[[int], str] = lambda node: f"192.168.{node // 250}.{1 + node % 250}",
) -> Dict[str, Any]:
    """A completed document in template two, the pods in an order of arrival that is not their order."""
    instances: List[Dict[str, Any]] = [
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
    """An address for a card: one network for each card of a server, as in the documents' samples."""
    return f"192.{1 + device}.{node // 250}.{1 + node % 250}"
