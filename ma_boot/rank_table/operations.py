"""Merges, compares and lists tables, and makes the table of one machine."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ma_boot.rank_table.table import RankTable, TableFinding, is_number


def merged(tables: Sequence[RankTable]) -> Tuple[Dict[str, Any], List[TableFinding]]:
    """One document from tables of version 1.0 or 1.2, with ranks renumbered, and the findings about them.

    Servers are in the natural order of their ids (10.0.0.2 before 10.0.0.10), whatever the order of the
    tables: a shell's wildcard expands to `hccl_10` before `hccl_2`. A server in two tables, or a table of
    another version, is a finding; the document itself is left to `validate`.
    """
    findings = [
        TableFinding(f"table {i}", f"version {table.template}", "1.0 or 1.2")
        for i, table in enumerate(tables, start=1)
        if table.template not in ("1.0", "1.2")
    ]
    servers: List[Mapping[str, Any]] = []
    super_pods: Dict[str, List[Any]] = {}
    for table in tables:
        servers += table.document.get("server_list", ())
        for entry in table.document.get("super_pod_list", ()):
            super_pods.setdefault(entry["super_pod_id"], []).extend(entry["server_list"])
    servers.sort(key=lambda server: _natural(str(server["server_id"])))
    for here, there in zip(servers, servers[1:]):
        if here["server_id"] == there["server_id"]:
            findings.append(
                TableFinding("server_list", f"server {here['server_id']} in two tables", "each server once")
            )
    document: Dict[str, Any] = {
        "status": "completed",
        "version": "1.2" if super_pods else "1.0",
        "server_count": str(len(servers)),
        "server_list": _renumbered(servers),
    }
    if super_pods:
        document["super_pod_list"] = [
            {"super_pod_id": name, "server_list": found} for name, found in sorted(super_pods.items())
        ]
    return document, findings


def _renumbered(servers: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    rank, numbered = 0, []
    for server in servers:
        devices = []
        for device in sorted(server["device"], key=lambda device: int(device["rank_id"])):
            devices.append({**device, "rank_id": str(rank)})
            rank += 1
        numbered.append({**server, "device": devices})
    return numbered


def _natural(text: str) -> List[Tuple[int, int, str]]:
    """A sort key by which 10 comes after 2."""
    parts = re.findall(r"\d+|\D+", text)
    return [(0, int(part), "") if is_number(part) else (1, 0, part) for part in parts]


def moved(before: RankTable, after: RankTable) -> List[str]:
    """A line for each rank whose place has changed; empty for tables that agree."""
    was, now = _places(before), _places(after)
    return [
        f"rank {rank}: {was.get(rank, 'nowhere')} -> {now.get(rank, 'nowhere')}"
        for rank in sorted(was.keys() | now.keys())
        if was.get(rank) != now.get(rank)
    ]


def _places(table: RankTable) -> Dict[int, str]:
    return {
        row[
            "rank"
        ]: f"server {row['server_id']} device {row['device_id']} ({row['device_ip'] or 'no address'})"
        for row in rows(table)
        if row["rank"] is not None
    }


class SuperPod(NamedTuple):
    """A super pod of A3s as one server sees it: its id, and the `super_device_id` of each card here."""

    super_pod_id: str
    super_device_ids: Mapping[int, str]


def machine_table(
    server_id: str, addresses: Mapping[int, str], super_pod: Optional[SuperPod] = None
) -> Dict[str, Any]:
    """The document of one server with these addresses by card, ranks in the order of the cards.

    With a super pod it is of version 1.2 and has the cards of that, also those without an address: inside of
    a super pod they need none.
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
    document: Dict[str, Any] = {
        "status": "completed",
        "version": "1.2" if super_pod else "1.0",
        "server_count": "1",
        "server_list": [{"server_id": server_id, "device": devices}],
    }
    if super_pod:
        servers = [{"server_id": server_id}]
        document["super_pod_list"] = [{"super_pod_id": super_pod.super_pod_id, "server_list": servers}]
    return document


def rows(table: RankTable) -> List[Dict[str, Any]]:
    """The table as a row for each device, in rank order; of a table without ranks, in its own order.

    The ranks of version 2.0 are on no server that it names.
    """
    found = _level_rows(table.document["rank_list"]) if table.template == "2.0" else _device_rows(table)
    return sorted(found, key=lambda row: row["rank"] or 0)


def _level_rows(listed: Any) -> List[Dict[str, Any]]:
    """The rows of version 2.0, as far as they can be read: its contents are not checked."""
    ranks = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [
        {
            "rank": one.get("rank_id") if isinstance(one.get("rank_id"), int) else None,
            "pod": None,
            "server_id": None,
            "device_id": one.get("device_id"),
            "device_ip": _address(one.get("level_list")),
        }
        for one in ranks
    ]


def _address(levels: Any) -> Optional[str]:
    """The address of the outermost network that has IP, which is that between servers; else the first EID."""
    found = list(_addresses(levels))
    of_ip = [address for kind, address in found if kind.startswith("IP")]
    return of_ip[-1] if of_ip else next((address for _, address in found), None)


def _addresses(value: Any) -> Iterator[Tuple[str, str]]:
    """The addresses of all levels, which are objects in lists of objects, each after its type."""
    if isinstance(value, list):
        for item in value:
            yield from _addresses(item)
    elif isinstance(value, dict):
        if isinstance(value.get("addr"), str):
            yield str(value.get("addr_type")), value["addr"]
        yield from _addresses(value.get("rank_addr_list"))


def _device_rows(table: RankTable) -> List[Dict[str, Any]]:
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
