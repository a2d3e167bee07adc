"""HCCL's rules for rank tables: each rule is a function that yields findings.

The rules are those of the HCCL documentation (rank_table_config_910, _a2, _a3), of its parser, and of
MindSpore's guide to distributed training on Ascend. A rule that depends on the product is an error if the
product is known, else a warning; a rule of the 910A alone applies only if that product is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ma_boot.platform.rank_table.table import (
    INVALID,
    MISSING,
    Device,
    Pod,
    RankTable,
    TableFinding,
    address_family,
    errors,
    findings_about_version,
    is_number,
)

_HIGHEST_DEVICE = {"910a": 7, "910b": 15, "a3": 15}
PRODUCTS = tuple(_HIGHEST_DEVICE)
# Characters (rank_table_config_910: "server_id").
_LONGEST_SERVER_ID = 64
# HCCL's code for "super_device_id[] is invalid".
_INVALID_TABLE = "EI0004"


def validate(table: RankTable, product: str | None = None) -> list[TableFinding]:
    """Returns all findings, including those of reading; `errors` selects the fatal ones.

    `product` is one of `PRODUCTS`, or None if unknown. The contents of a 2.0 table are not checked.
    """
    findings = list(table.findings)
    if table.template in ("", "2.0"):
        return findings
    # After an unreadable part, rules about the whole table do not apply.
    complete = not errors(findings)
    if table.template == "two":
        findings += _counts_of_template_two(table.document)
        findings += _unique("pod_name", [pod.name or "" for pod in table.pods])
    else:
        findings += _servers_of_template_one(table)
        findings += _ranks(table, complete)
    findings += _server_ids(table)
    findings += _addresses(table)
    findings += _devices(table, product)
    if complete:
        findings += _super_pods(table, product) if table.template != "two" else ()
        findings += _shape(table, product or _product_of(table))
        if table.world_size == 0:
            findings.append(TableFinding("$", "no device in the whole table", "at least one", MISSING))
    return findings


def _product_of(table: RankTable) -> str | None:
    """Returns the product if the table shows it: only an A3 has devices of super pods."""
    if table.template == "1.2" and any(device.more.get("super_device_id") for _, device in _located(table)):
        return "a3"
    return None


def _is_one_super_pod(table: RankTable) -> bool:
    """Returns whether all servers are in one super pod of A3, whose network needs no device addresses."""
    listed = table.document.get("super_pod_list")
    return _product_of(table) == "a3" and isinstance(listed, list) and len(listed) == 1


def _counts_of_template_two(document: Mapping[str, Any]) -> Iterator[TableFinding]:
    """Checks declared counts against the lists; a value that is not a list was reported by the reader."""
    groups = document["group_list"]
    if not isinstance(groups, list):
        return
    yield from _count(document, "group_count", len(groups), "")
    for g, group in enumerate(groups):
        instances = group.get("instance_list") if isinstance(group, dict) else None
        if not isinstance(instances, list):
            continue
        at = f"group_list[{g}]."
        yield from _count(group, "instance_count", len(instances), at)
        devices = [pod.get("devices") if isinstance(pod, dict) else None for pod in instances]
        lists = [cards for cards in devices if isinstance(cards, list)]
        if len(lists) == len(devices):
            yield from _count(group, "device_count", sum(map(len, lists)), at)


def _servers_of_template_one(table: RankTable) -> Iterator[TableFinding]:
    needed = table.template == "1.0"
    servers = table.document["server_list"]
    if isinstance(servers, list):
        yield from _count(table.document, "server_count", len(servers), "", needed)
    yield from _unique("server_id", [pod.server_id for pod in table.pods])
    yield from findings_about_version(table)


def _count(
    holder: Mapping[str, Any], key: str, counted: int, at: str, needed: bool = True
) -> Iterator[TableFinding]:
    declared = holder.get(key)
    if declared is None:
        if needed:
            yield TableFinding(at + key, "nothing", f'"{counted}", as many as are listed', MISSING)
    elif declared != str(counted):
        yield TableFinding(at + key, repr(declared), f'"{counted}", as many as are listed', INVALID)


def _server_ids(table: RankTable) -> Iterator[TableFinding]:
    for server in table.servers():
        if len(server) > _LONGEST_SERVER_ID:
            shown = f"{len(server)} characters ({server[:16]}...)"
            yield TableFinding("server_id", shown, f"at most {_LONGEST_SERVER_ID}", INVALID)


def _unique(what: str, values: Sequence[str]) -> Iterator[TableFinding]:
    """Reports values that occur more than once; an empty value was reported by the reader."""
    for value, times in Counter(filter(None, values)).items():
        if times > 1:
            yield TableFinding(what, f"{value} {times} times", "unique values", INVALID)


def _ranks(table: RankTable, complete: bool) -> Iterator[TableFinding]:
    ranks = [device.rank for pod in table.pods for device in pod.devices if device.rank is not None]
    twice = sorted(rank for rank, times in Counter(ranks).items() if times > 1)
    missing = sorted(set(range(len(ranks))) - set(ranks))
    if twice:
        yield TableFinding("rank_id", f"{_some(twice)} more than once", "each rank once", INVALID)
    if missing and complete:
        every = f"each of 0 to {len(ranks) - 1}; Volcano leaves gaps when a job is scaled down"
        yield TableFinding("rank_id", f"no {_some(missing)}", every, INVALID)
    if complete and not twice and not missing:
        yield from _interleaved(table)


def _interleaved(table: RankTable) -> Iterator[TableFinding]:
    """The ranks of a server are consecutive: HCCL builds its rings from them."""
    for server, devices in table.servers().items():
        ranks = sorted(device.rank or 0 for device in devices)
        if ranks and ranks[-1] - ranks[0] != len(ranks) - 1:
            yield TableFinding(f"server {server}", f"ranks {_some(ranks)}", "consecutive ranks", INVALID)


def _addresses(table: RankTable) -> Iterator[TableFinding]:
    families: dict[int, str] = {}
    addresses = []
    for pod, device in _located(table):
        if device.device_ip is None:
            continue
        try:
            families.setdefault(address_family(device.device_ip), device.device_ip)
        except ValueError:
            yield TableFinding(
                _place(pod, device, "device_ip"), repr(device.device_ip), "an IPv4 or IPv6 address", INVALID
            )
        addresses.append(device.device_ip)
    for pod in table.pods:
        host = str(pod.more.get("host_ip") or "")
        if not host:
            # `for_hccl` leaves an empty one out.
            continue
        try:
            families.setdefault(address_family(host), host)
        except ValueError:
            at = f"server {pod.server_id}: host_ip"
            yield TableFinding(at, f"{host!r:.60}", "an IPv4 or IPv6 address", INVALID)
    if len(families) > 1:
        yield TableFinding("device_ip", " and ".join(families.values()), "addresses of one family", INVALID)
    yield from _unique("device_ip", addresses)


def _devices(table: RankTable, product: str | None) -> Iterator[TableFinding]:
    highest = _HIGHEST_DEVICE.get(product or "", 15)
    together = len(table.servers()) == 1 or _is_one_super_pod(table)
    for pod, device in _located(table):
        if int(device.device_id) > highest:
            yield TableFinding(
                _place(pod, device, "device_id"),
                device.device_id,
                f"0 to {highest}",
                INVALID,
                fatal=product is not None,
            )
        if device.device_ip is None and (product == "910a" or not together):
            yield TableFinding(
                _place(pod, device, "device_ip"),
                "nothing",
                "an address",
                MISSING,
                fatal=product is not None,
            )
        for port in ("device_port", "host_port"):
            if device.more.get(port) is not None:
                value = str(device.more[port])
                if not (is_number(value) and 1 <= int(value) <= 65535):
                    at = _place(pod, device, port)
                    yield TableFinding(at, f"{value!r:.40}", "1 to 65535", INVALID)
    for server, devices in table.servers().items():
        if server:
            ids = [str(int(device.device_id)) for device in devices]
            yield from _unique(f"server {server}: device_id", ids)


def _shape(table: RankTable, product: str | None) -> Iterator[TableFinding]:
    """Cards per server: on a 910A 1, 2, 4 or 8 of a single server, all 8 of each of several servers."""
    servers = table.servers()
    for server in [server for server, devices in servers.items() if not devices]:
        yield TableFinding(f"server {server}", "no device", "at least one", MISSING)
    sizes = {server: len(devices) for server, devices in servers.items() if devices}
    if len(set(sizes.values())) > 1 and product not in ("910b", "a3"):
        yield TableFinding(
            "server_list", f"{_sizes(sizes)} devices", "the same number on every server", "E_PARA",
            fatal=product is not None,
        )  # fmt: skip
    # A table of fewer than 8 devices per server is ordinary on the newer products.
    if product == "910a":
        yield from _shape_of_910a(servers)


def _shape_of_910a(servers: Mapping[str, Sequence[Device]]) -> Iterator[TableFinding]:
    several = len(servers) > 1
    expected = "8 on each of several 910A servers" if several else "1, 2, 4 or 8 on a 910A"
    odd = {
        server: len(devices)
        for server, devices in servers.items()
        if len(devices) not in ((8,) if several else (1, 2, 4, 8))
    }
    if odd:
        yield TableFinding("server_list", f"{_sizes(odd)} devices", expected, INVALID)
    for server, devices in servers.items():
        ids = sorted(int(device.device_id) for device in devices)
        if len(ids) in (2, 4) and len({device // 4 for device in ids}) > 1:
            group = "devices of one group of the 910A, 0-3 or 4-7"
            yield TableFinding(f"server {server}", f"devices {_some(ids)}", group, INVALID)


def _super_pods(table: RankTable, product: str | None) -> Iterator[TableFinding]:
    """Version 1.2: `super_device_id` and `super_pod_list` of the A3, which needs both ids of each card."""
    listed = table.document.get("super_pod_list")
    for pod, device in _located(table):
        number = device.more.get("super_device_id")
        at = _place(pod, device, "super_device_id")
        if number == "":
            yield TableFinding(at, "''", "an id, or no such field", _INVALID_TABLE)
        elif number is None and listed and product == "a3":
            yield TableFinding(at, "nothing", "a number", "E_PARA")
        elif number is not None and not is_number(str(number)):
            yield TableFinding(at, f"{number!r:.60}", "a number", INVALID)
    if listed is None or listed == []:
        return
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        yield TableFinding("super_pod_list", type(listed).__name__, "a list of objects", MISSING)
        return
    yield from _unique("super_pod_id", [str(entry.get("super_pod_id")) for entry in listed])
    owners: list[tuple[str, str]] = []
    for i, entry in enumerate(listed):
        if product == "a3" and not entry.get("super_pod_id"):
            shown = "''" if "super_pod_id" in entry else "nothing"
            yield TableFinding(f"super_pod_list[{i}].super_pod_id", shown, "a text", INVALID)
        servers = entry.get("server_list")
        if not isinstance(servers, list) or not all(isinstance(server, dict) for server in servers):
            at = f"super_pod_list[{i}].server_list"
            yield TableFinding(at, type(servers).__name__, "a list of objects", MISSING)
            continue
        owners += [(str(server.get("server_id")), str(entry.get("super_pod_id"))) for server in servers]
    yield from _super_pod_servers(table, owners)


def _super_pod_servers(table: RankTable, owners: Sequence[tuple[str, str]]) -> Iterator[TableFinding]:
    servers = set(table.servers())
    named = [server for server, _ in owners]
    yield from _unique("super_pod_list: server_id", named)
    for server in sorted(set(named) - servers):
        yield TableFinding("super_pod_list", f"server {server}", "a server of server_list", INVALID)
    for server in sorted(servers - set(named)):
        yield TableFinding("super_pod_list", f"no server {server}", "every server of server_list", INVALID)
    pod_of = dict(owners)
    ids: dict[str, list[str]] = {}
    for pod in table.pods:
        for device in pod.devices:
            if device.more.get("super_device_id"):
                ids.setdefault(pod_of.get(pod.server_id, ""), []).append(str(device.more["super_device_id"]))
    for super_pod, device_ids in ids.items():
        yield from _unique(f"super pod {super_pod}: super_device_id", device_ids)


def _located(table: RankTable) -> Iterator[tuple[Pod, Device]]:
    """Each device with its pod."""
    for pod in table.pods:
        for device in pod.devices:
            yield pod, device


def _place(pod: Pod, device: Device, key: str) -> str:
    """Returns the place of a device's field, in a form that suits every template."""
    return f"{pod.name or 'server ' + pod.server_id}, device {device.device_id}.{key}"


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")


def _sizes(sizes: Mapping[str, int]) -> str:
    more = ", ..." if len(sizes) > 4 else ""
    return ", ".join(f"{server}: {size}" for server, size in list(sizes.items())[:4]) + more
