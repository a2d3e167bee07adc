"""Assigns ranks to a table of template two, and converts it to template one, version 1.0."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ma_boot.rank_table.table import Device, Pod, RankTable, TableFinding, for_hccl, is_number


def convert(table: RankTable, rank_order: str = "pod", host_nic_ip: str = "") -> RankTable:
    """The table with ranks, as template one, in a version that HCCL reads.

    A table that already has ranks keeps them, and is returned unchanged unless its version is another one.

    `rank_order` "pod" orders by the number at the end of the pod names, across all groups, so that rank 0 is
    on the node with `VC_TASK_INDEX` 0. "server" orders by `server_id` as text, then by device, which is how
    HCCL itself reads template two (and what MindSpore's guide recommends). A warning is added to the findings
    if the two orders differ, or if a name has no number (the order of the file is kept). `host_nic_ip`, if
    not empty, is written into each server ("reserve", for MindSpore 1.x). Unknown fields are kept, and all
    values are strings.
    """
    if table.template == "2.0":
        return table
    if table.template != "two":
        document = for_hccl(table)
        return table if document == table.document else table._replace(document=document)
    by_pod, warnings = _by_pod_number(table.pods)
    by_server = sorted(table.pods, key=lambda pod: (pod.server_id, _first_device(pod)))
    if [pod.name for pod in by_pod] != [pod.name for pod in by_server]:
        warnings.append(
            TableFinding(
                "group_list",
                f"pods in the order {_names(by_pod)} by pod number",
                f"{_names(by_server)} by server_id, as HCCL would read the table; ranks are assigned by "
                f"{rank_order}",
                fatal=False,
            )
        )
    pods = _numbered(by_pod if rank_order == "pod" else by_server)
    document = _template_one(pods, host_nic_ip)
    return RankTable("1.0", pods, document, (*table.findings, *warnings))


def _by_pod_number(pods: Sequence[Pod]) -> Tuple[List[Pod], List[TableFinding]]:
    numbers = [(pod.name or "").rpartition("-")[2] for pod in pods]
    if all(map(is_number, numbers)):
        order = sorted(range(len(pods)), key=lambda i: (int(numbers[i]), pods[i].name or ""))
        return [pods[i] for i in order], []
    odd = next(pod.name for pod, number in zip(pods, numbers) if not is_number(number))
    warning = TableFinding(
        "pod_name", repr(odd), "a name ending in a number; ranks follow the order of the file", fatal=False
    )
    return list(pods), [warning]


def _first_device(pod: Pod) -> int:
    return min((int(device.device_id) for device in pod.devices), default=0)


def _names(pods: Sequence[Pod]) -> str:
    shown = ", ".join(str(pod.name) for pod in pods[:3])
    return shown + (", ..." if len(pods) > 3 else "")


def _numbered(pods: Sequence[Pod]) -> Tuple[Pod, ...]:
    numbered, rank = [], 0
    for pod in pods:
        devices = []
        for device in pod.devices:
            devices.append(Device(device.device_id, device.device_ip, rank, device.more))
            rank += 1
        numbered.append(Pod(pod.name, pod.server_id, tuple(devices), pod.more))
    return tuple(numbered)


def _template_one(pods: Sequence[Pod], host_nic_ip: str) -> Dict[str, Any]:
    """The document; pods on the same server become one entry, devices in rank order."""
    servers: Dict[str, Dict[str, Any]] = {}
    for pod in pods:
        server = servers.setdefault(pod.server_id, {"server_id": pod.server_id, "device": []})
        server.update(pod.more)
        server["device"] += [_entry(device) for device in pod.devices]
        if host_nic_ip:
            server["host_nic_ip"] = host_nic_ip
    return {
        "status": "completed",
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": list(servers.values()),
    }


def _entry(device: Device) -> Dict[str, Any]:
    ip = {"device_ip": device.device_ip} if device.device_ip else {}
    return {"device_id": device.device_id, **ip, **device.more, "rank_id": str(device.rank)}
