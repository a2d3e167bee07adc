"""Assigns ranks, merges, compares and lists tables, and makes the table of one machine."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ma_boot.platform.rank_table.table import Device, Pod, RankTable, TableFinding, for_hccl, is_number


def merged(tables: Sequence[RankTable]) -> tuple[dict[str, Any], list[TableFinding]]:
    """Merges tables of version 1.0 or 1.2 into one document with new ranks; returns it with findings.

    Servers are in the natural order of their ids (10.0.0.2 before 10.0.0.10), independent of the order of the
    tables: a shell expands `hccl_*` to `hccl_10` before `hccl_2`. A server in two tables and a table of
    another version are findings; the document itself is checked by `validate`.
    """
    findings = [
        TableFinding(f"table {i}", f"version {table.template}", "1.0 or 1.2")
        for i, table in enumerate(tables, start=1)
        if table.template not in ("1.0", "1.2")
    ]
    servers: list[Mapping[str, Any]] = []
    super_pods: dict[str, list[Any]] = {}
    for table in tables:
        servers += table.document.get("server_list", ())
        for entry in table.document.get("super_pod_list", ()):
            super_pods.setdefault(entry["super_pod_id"], []).extend(entry["server_list"])
    servers.sort(key=lambda server: _natural(str(server["server_id"])))
    for server, following in zip(servers, servers[1:]):
        if server["server_id"] == following["server_id"]:
            findings.append(
                TableFinding("server_list", f"server {server['server_id']} in two tables", "each server once")
            )
    document: dict[str, Any] = {
        "status": "completed",
        "version": "1.2" if super_pods else "1.0",
        "server_count": str(len(servers)),
        "server_list": _renumbered(servers),
    }
    if super_pods:
        document["super_pod_list"] = [
            {"super_pod_id": name, "server_list": members} for name, members in sorted(super_pods.items())
        ]
    return document, findings


def _renumbered(servers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    ranks = itertools.count()
    in_order = [sorted(server["device"], key=lambda device: int(device["rank_id"])) for server in servers]
    return [
        {**server, "device": [{**device, "rank_id": str(next(ranks))} for device in devices]}
        for server, devices in zip(servers, in_order)
    ]


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Returns a sort key with which 10 comes after 2."""
    parts = re.findall(r"\d+|\D+", text)
    return [(0, int(part), "") if is_number(part) else (1, 0, part) for part in parts]


def moved(before: RankTable, after: RankTable) -> list[str]:
    """Compares two tables; returns a line for each rank whose place differs."""
    was, now = _places(before), _places(after)
    return [
        f"rank {rank}: {was.get(rank, 'nowhere')} -> {now.get(rank, 'nowhere')}"
        for rank in sorted(was.keys() | now.keys())
        if was.get(rank) != now.get(rank)
    ]


def _places(table: RankTable) -> dict[int, str]:
    place = "server {server_id} device {device_id} ({device_ip})"
    return {
        row["rank"]: place.format(**{**row, "device_ip": row["device_ip"] or "no address"})
        for row in rows(table)
        if row["rank"] is not None
    }


class SuperPod(NamedTuple):
    """A super pod of A3, seen from one server: its id, and the `super_device_id` of each card here."""

    super_pod_id: str
    super_device_ids: Mapping[int, str]


def machine_table(
    server_id: str, addresses: Mapping[int, str], super_pod: SuperPod | None = None
) -> dict[str, Any]:
    """Makes the document of one server from addresses by card; ranks are in the order of the cards.

    With a super pod it has version 1.2 and all cards of the server: within a super pod, cards need no
    addresses.
    """
    sdids = super_pod.super_device_ids if super_pod else {}
    devices = [
        {
            "device_id": str(device),
            **({"super_device_id": sdids[device]} if super_pod else {}),
            **({"device_ip": addresses[device]} if device in addresses else {}),
            "rank_id": str(rank),
        }
        for rank, device in enumerate(sorted(sdids if super_pod else addresses))
    ]
    document: dict[str, Any] = {
        "status": "completed",
        "version": "1.2" if super_pod else "1.0",
        "server_count": "1",
        "server_list": [{"server_id": server_id, "device": devices}],
    }
    if super_pod:
        servers = [{"server_id": server_id}]
        document["super_pod_list"] = [{"super_pod_id": super_pod.super_pod_id, "server_list": servers}]
    return document


def rows(table: RankTable) -> list[dict[str, Any]]:
    """Returns a row for each device, in rank order; without ranks, in the order of the table.

    Version 2.0 does not name the servers of its ranks.
    """
    unsorted = _level_rows(table.document["rank_list"]) if table.template == "2.0" else _device_rows(table)
    return sorted(unsorted, key=lambda row: row["rank"] or 0)


def _level_rows(listed: Any) -> list[dict[str, Any]]:
    """Returns the rows of version 2.0 that can be read: its contents are not validated."""
    ranks = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return [
        {
            "rank": entry.get("rank_id") if isinstance(entry.get("rank_id"), int) else None,
            "pod": None,
            "server_id": None,
            "device_id": entry.get("device_id"),
            "device_ip": _address(entry.get("level_list")),
        }
        for entry in ranks
    ]


def _address(levels: Any) -> str | None:
    """Returns the IP address of the outermost network (between servers), else the first EID."""
    addresses = list(_addresses(levels))
    of_ip = [address for kind, address in addresses if kind.startswith("IP")]
    return of_ip[-1] if of_ip else next((address for _, address in addresses), None)


def _addresses(value: Any) -> Iterator[tuple[str, str]]:
    """Yields type and address of all levels, which are objects in lists of objects."""
    if isinstance(value, list):
        for item in value:
            yield from _addresses(item)
    elif isinstance(value, dict):
        if isinstance(value.get("addr"), str):
            yield str(value.get("addr_type")), value["addr"]
        yield from _addresses(value.get("rank_addr_list"))


def _device_rows(table: RankTable) -> list[dict[str, Any]]:
    return [
        {
            "rank": device.rank,
            "pod": pod.name,
            "server_id": pod.server_id,
            "device_id": device.device_id,
            "device_ip": device.device_ip,
        }
        for pod in table.pods
        for device in pod.devices
    ]


def convert(table: RankTable, rank_order: str = "pod", host_nic_ip: str = "") -> RankTable:
    """Converts a table to template one, with ranks, in a version that HCCL reads.

    A table that already has ranks keeps them; with a version that HCCL reads, it is returned unchanged.

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


def _by_pod_number(pods: Sequence[Pod]) -> tuple[list[Pod], list[TableFinding]]:
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


def _numbered(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    ranks = itertools.count()
    return tuple(
        pod._replace(devices=tuple(device._replace(rank=next(ranks)) for device in pod.devices))
        for pod in pods
    )


def _template_one(pods: Sequence[Pod], host_nic_ip: str) -> dict[str, Any]:
    """Makes the document; pods on the same server become one entry, with devices in rank order."""
    servers: dict[str, dict[str, Any]] = {}
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


def _entry(device: Device) -> dict[str, Any]:
    ip = {"device_ip": device.device_ip} if device.device_ip else {}
    return {"device_id": device.device_id, **ip, **device.more, "rank_id": str(device.rank)}
