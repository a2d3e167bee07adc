"""Rank tables: read template two and one, order the ranks, write template one. Pure: text in, values out.

Template two is what ModelArts gives (`jobstart_hccl.json`, SEED document develop-modelarts-1416): groups of
instances (pods) with their devices, no ranks. Template one is what HCCL and MindSpore want: servers with
devices and a `rank_id` each. Which one a document is, its shape tells, not its path.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from ma_boot.errors import ConfigError, RankTableInvalid, listed


@dataclass(frozen=True)
class Device:
    """One card: its physical id in its server, the address of its network port, its rank in the job."""

    device_id: str
    device_ip: Optional[str]
    rank: int


@dataclass(frozen=True)
class Pod:
    """One container of the job and its devices, in rank order; template one knows no pod names."""

    name: Optional[str]
    server_id: str
    devices: Tuple[Device, ...]


@dataclass(frozen=True)
class RankTable:
    """A completed table: pods in rank order, and the document in template one."""

    pods: Tuple[Pod, ...]
    template_one: Mapping[str, Any]

    @property
    def world_size(self) -> int:
        """The number of ranks: counted, since the counts that tables declare have been wrong before."""
        return sum(len(pod.devices) for pod in self.pods)

    def dumps(self) -> str:
        """Template one as a file holds it; the same bytes on every node."""
        return json.dumps(self.template_one, indent=2, ensure_ascii=False) + "\n"


class NotYet(NamedTuple):
    """Why a table cannot be used yet, in words for the log."""

    reason: str


def completed_document(text: str) -> Union[Dict[str, Any], NotYet]:
    """The document once it says `completed`; else why it is not ready.

    The table is written by somebody else while we read, not atomically: empty, half a document, or no
    more than a status are states that every job passes through.
    """
    if not text.strip():
        return NotYet("the file is empty")
    try:
        document = json.loads(text)
    except ValueError:
        return NotYet(f"the file is not whole JSON yet ({len(text)} characters)")
    if not isinstance(document, dict):
        return NotYet(f"the file holds a JSON {type(document).__name__}, expected an object")
    status = document.get("status")
    if status is None:
        return NotYet("the table has no status yet")
    if status != "completed":
        return NotYet(f'status is "{status}"')
    return document


def parse(document: Mapping[str, Any]) -> RankTable:
    """Reads a completed document; raises `RankTableInvalid` with every problem found."""
    problems: List[str] = []
    if "server_list" in document:
        table = RankTable(_pods_of_template_one(document, problems), document)
    elif "group_list" in document:
        pods = _ranked(_pods_of_template_two(document, problems))
        table = RankTable(pods, _template_one(pods))
    else:
        raise RankTableInvalid(
            "the rank table has neither group_list (template two) nor server_list (template one)"
        )
    if not problems and table.world_size == 0:
        problems.append("no device in the whole table; expected one at the least")
    problems += _repeated(table.pods)
    if problems:
        raise RankTableInvalid(listed("the rank table is completed, but wrong:", problems))
    return table


def _pods_of_template_two(document: Mapping[str, Any], problems: List[str]) -> List[Pod]:
    pods: List[Pod] = []
    groups = _objects(document, "group_list", "", problems)
    for g, group in enumerate(groups):
        where = f"group_list[{g}]"
        instances = _objects(group, "instance_list", where, problems)
        pods_before = len(pods)
        for i, instance in enumerate(instances):
            at = f"{where}.instance_list[{i}]"
            pods.append(
                Pod(
                    _text(instance, "pod_name", at, problems),
                    _text(instance, "server_id", at, problems),
                    _devices(instance, "devices", at, problems),
                )
            )
        _check_count(group, "instance_count", len(instances), where, problems)
        counted = sum(len(pod.devices) for pod in pods[pods_before:])
        _check_count(group, "device_count", counted, where, problems)
    _check_count(document, "group_count", len(groups), "", problems)
    return pods


def _pods_of_template_one(document: Mapping[str, Any], problems: List[str]) -> Tuple[Pod, ...]:
    servers = _objects(document, "server_list", "", problems)
    pods = []
    for s, server in enumerate(servers):
        at = f"server_list[{s}]"
        devices = _devices(server, "device", at, problems, ranked=True)
        pods.append(Pod(None, _text(server, "server_id", at, problems), devices))
    _check_count(document, "server_count", len(servers), "", problems)
    ranks = sorted(device.rank for pod in pods for device in pod.devices)
    if not problems and ranks != list(range(len(ranks))):
        problems.append(f"rank_id: found {_shortened(ranks)}, expected each of 0 to {len(ranks) - 1} once")
    return tuple(sorted(pods, key=lambda pod: min((device.rank for device in pod.devices), default=-1)))


def _devices(
    holder: Mapping[str, Any], key: str, at: str, problems: List[str], ranked: bool = False
) -> Tuple[Device, ...]:
    devices = []
    for d, device in enumerate(_objects(holder, key, at, problems)):
        where = f"{at}.{key}[{d}]"
        device_id = _text(device, "device_id", where, problems)
        rank = _text(device, "rank_id", where, problems) if ranked else "0"
        for name, value in (("device_id", device_id), ("rank_id", rank)):
            if value and not value.isdecimal():
                problems.append(f"{where}.{name}: found {value!r}, expected a number as a string")
        ip = _text(device, "device_ip", where, problems) if "device_ip" in device else None
        devices.append(Device(device_id, ip, int(rank) if rank.isdecimal() else 0))
    return tuple(sorted(devices, key=lambda device: device.rank)) if ranked else tuple(devices)


def _objects(holder: Mapping[str, Any], key: str, where: str, problems: List[str]) -> List[Mapping[str, Any]]:
    """The list of objects under a key; what is no object is reported and left out."""
    at = f"{where}.{key}" if where else key
    value = holder.get(key)
    if not isinstance(value, list):
        problems.append(f"{at}: found {_kind(value)}, expected a list")
        return []
    for i, item in enumerate(value):
        if not isinstance(item, dict):
            problems.append(f"{at}[{i}]: found {_kind(item)}, expected an object")
    return [item for item in value if isinstance(item, dict)]


def _text(holder: Mapping[str, Any], key: str, where: str, problems: List[str]) -> str:
    """The string under a key; a number is taken for the string that it should have been."""
    value = holder.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and value:
        return value
    problems.append(f"{where}.{key}: found {_kind(value)}, expected a string")
    return ""


def _check_count(holder: Mapping[str, Any], key: str, counted: int, where: str, problems: List[str]) -> None:
    declared = holder.get(key)
    if declared is not None and str(declared) != str(counted):
        at = f"{where}.{key}" if where else key
        problems.append(f"{at}: found {declared!r}, but {counted} are listed")


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"


def _shortened(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:16])
    return shown + (f", ... ({len(ranks)} in all)" if len(ranks) > 16 else "")


def _repeated(pods: Sequence[Pod]) -> List[str]:
    """Pod names, devices of a server and device addresses are each unique in a job."""
    kinds: Dict[str, List[str]] = {
        "pod_name": [pod.name for pod in pods if pod.name],
        "device": [f"{d.device_id} of server {pod.server_id}" for pod in pods for d in pod.devices],
        "device_ip": [d.device_ip for pod in pods for d in pod.devices if d.device_ip],
    }
    return [
        f"{kind} {value}: found {times} times, expected once"
        for kind, values in kinds.items()
        for value, times in Counter(values).items()
        if times > 1
    ]


def _ranked(pods: Sequence[Pod]) -> Tuple[Pod, ...]:
    """Pods by the number at the end of their names, their devices numbered through.

    So rank 0 is on the node that `VC_TASK_INDEX` calls 0; the order in the file is the order of arrival,
    and changes when a pod is rescheduled. Where a name has no number, the order of the file stays.
    """
    numbers = [(pod.name or "").rpartition("-")[2] for pod in pods]
    if all(number.isdecimal() for number in numbers):
        pods = [pod for _, pod in sorted(zip(numbers, pods), key=lambda pair: int(pair[0]))]
    ranked, rank = [], 0
    for pod in pods:
        devices = tuple(
            Device(device.device_id, device.device_ip, rank + i) for i, device in enumerate(pod.devices)
        )
        rank += len(devices)
        ranked.append(Pod(pod.name, pod.server_id, devices))
    return tuple(ranked)


def _template_one(pods: Sequence[Pod]) -> Dict[str, Any]:
    """Version 1.0; strings only, since HCCL refuses numbers (EI0017); two pods of one server are merged."""
    servers: Dict[str, List[Dict[str, str]]] = {}
    for pod in pods:
        for device in pod.devices:
            entry = {"device_id": device.device_id}
            if device.device_ip:
                entry["device_ip"] = device.device_ip
            servers.setdefault(pod.server_id, []).append({**entry, "rank_id": str(device.rank)})
    return {
        "status": "completed",
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": [{"server_id": server, "device": devices} for server, devices in servers.items()],
    }


def own_pod(
    table: RankTable, instance_name: Optional[str], host_ip: Optional[str], task_index: Optional[int]
) -> Pod:
    """The pod that this container is: by exact pod name, by the name with its prefix normalised
    (`modelarts-job-` against `ma-job-`), by `MA_CURRENT_HOST_IP`, by `VC_TASK_INDEX` as the number at the
    end of the pod name (the place in a table that has no names). Raises `ConfigError` with the candidates.

    The first of these that exactly one pod fits decides; several are never guessed among. A table of one pod
    needs no identity, unless a name that is given contradicts it.
    """
    if len(table.pods) == 1 and (instance_name is None or table.pods[0].name is None):
        return table.pods[0]
    rules = [
        [pod for pod in table.pods if instance_name and pod.name == instance_name],
        [
            pod
            for pod in table.pods
            if instance_name and pod.name and _normal(pod.name) == _normal(instance_name)
        ],
        [pod for pod in table.pods if host_ip and pod.server_id == host_ip],
        [
            pod
            for i, pod in enumerate(table.pods)
            if task_index is not None and _index(pod, i) == str(task_index)
        ],
    ]
    for fitting in rules:
        if len(fitting) == 1:
            return fitting[0]
    raise ConfigError(
        listed(
            "this node was not found in the rank table: "
            f"MA_CURRENT_INSTANCE_NAME={instance_name}, MA_CURRENT_HOST_IP={host_ip}, "
            f"VC_TASK_INDEX={task_index}; the table has",
            [f"pod {pod.name} on server {pod.server_id}, {len(pod.devices)} devices" for pod in table.pods],
        )
    )


def _normal(name: str) -> str:
    return name.replace("modelarts-job-", "ma-job-", 1)


def _index(pod: Pod, place: int) -> str:
    return str(place) if pod.name is None else pod.name.rpartition("-")[2]
