"""Generates tables for jobs that do not exist: for rehearsals, tests and experiments."""

from __future__ import annotations

from typing import Any, Callable, Dict, List


def fake(
    nodes: int,
    devices_per_node: int,
    pod_name: Callable[[int], str] = "ma-job-fake-worker-{}".format,
    server_id: Callable[[int], str] = lambda node: f"192.168.{node // 250}.{1 + node % 250}",
) -> Dict[str, Any]:
    """A completed document of template two; the pods are in reverse order, since no order is guaranteed."""
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
    """An address for a card: each card of a server is in its own network, as in ModelArts' samples."""
    return f"192.{1 + device}.{node // 250}.{1 + node % 250}"
