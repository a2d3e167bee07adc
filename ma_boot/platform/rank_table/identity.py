"""Finds the pod of a table that is this container."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Callable, NamedTuple

from ma_boot.errors import ConfigError, listed
from ma_boot.platform.rank_table.table import Pod, RankTable


class Identity(NamedTuple):
    """Values by which a container finds itself in a table; unknown ones are None or empty.

    `name` is that of the pod, `job` the job's name in the names of its pods, `uid` Kubernetes' id of the pod,
    `host` the address of its server. `addresses` are those of this container and its host, the most reliable
    ones first. `devices` are the physical numbers of its cards, `device_count` is their number by the
    platform. `number` is the node's number in the job, `nodes` the number of nodes.
    """

    name: str | None = None
    job: str | None = None
    uid: str | None = None
    host: str | None = None
    addresses: tuple[str, ...] = ()
    devices: frozenset[int] = frozenset()
    device_count: int | None = None
    number: int | None = None
    nodes: int | None = None

    def __str__(self) -> str:
        known = {
            "pod name": self.name,
            "pod uid": self.uid,
            "addresses": ", ".join(self.addresses),
            "cards": ", ".join(map(str, sorted(self.devices))),
            "node": None if self.number is None else f"{self.number} of {self.nodes or 'unknown'}",
            "job": self.job,
        }
        return "; ".join(f"{what} {value}" for what, value in known.items() if value) or "nothing"


def own_pod(table: RankTable, identity: Identity) -> Pod:
    """Finds the pod that is this container, with its own devices only.

    The first rule that matches exactly one pod decides:

    1. exact name;
    2. name with the prefix normalised (`modelarts-job-` to `ma-job-`);
    3. uid (MindCluster's `server_id`);
    4. address (`server_id`, `host_ip` or `container_ip`);
    5. numbers of the cards;
    6. index, if the number of nodes is known: the number at the end of the name, or, if the table has no
       names and as many servers as the job has nodes, the place in the file.

    The only pod of a table matches unless both names are known. A pod whose name begins with that of another
    job matches by its exact name only.

    Raises:
        ConfigError: no rule matches one pod, or the server that matches holds the devices of several pods,
            and those of this one are unknown. The message lists the pods.
    """
    own = _only(table, identity)
    for rule in _RULES:
        if own is not None:
            break
        matching = rule(table, identity)
        own = matching[0] if len(matching) == 1 else None
    if own is None:
        raise ConfigError(
            listed(
                f"this node was not found in the rank table: {identity}; the table contains",
                [_show_pod(pod) for pod in table.pods],
            )
        )
    return _own_part(own, table, identity)


def _only(table: RankTable, identity: Identity) -> Pod | None:
    if len(table.pods) == 1 and not _of_another_job(table.pods[0], identity.job):
        return table.pods[0] if identity.name is None or table.pods[0].name is None else None
    return None


def _by_address(table: RankTable, identity: Identity) -> list[Pod]:
    """Returns the pod with the first address that is unique: a host may have several pods."""
    possible = [pod for pod in table.pods if not _of_another_job(pod, identity.job)]
    for address in identity.addresses:
        for key in ("container_ip", "server_id", "host_ip"):
            matching = [
                pod
                for pod in possible
                if address == (pod.server_id if key == "server_id" else pod.more.get(key))
            ]
            if len(matching) == 1:
                return matching
    return []


def _by_index(table: RankTable, identity: Identity) -> list[Pod]:
    if identity.number is None or (identity.nodes is None and len(table.pods) > 1):
        return []
    numbered = [
        pod
        for place, pod in enumerate(table.pods)
        if (
            _place(table, identity) == place
            if pod.name is None
            else pod.name.rpartition("-")[2] == str(identity.number)
        )
    ]
    mine = [pod for pod in numbered if not identity.devices or _cards(pod) <= identity.devices]
    return [pod for pod in mine if not _of_another_job(pod, identity.job)]


def _cards(pod: Pod) -> set[int]:
    return {int(device.device_id) for device in pod.devices}


def _is_address(text: str) -> bool:
    return text.count(".") == 3 and text.replace(".", "").isdecimal()


def _place(table: RankTable, identity: Identity) -> int | None:
    """Returns the place of this node in a table without names, None if the order means nothing.

    MindCluster, which writes `container_ip`, has its own order of pods. A table of addresses that lacks the
    one of this host is an earlier one.
    """
    servers = [pod.server_id for pod in table.pods]
    if identity.host and identity.host not in servers and all(_is_address(server) for server in servers):
        return None
    whole = len(table.pods) == (identity.nodes or 1)
    return identity.number if whole and not any("container_ip" in pod.more for pod in table.pods) else None


_RULES: tuple[Callable[[RankTable, Identity], Sequence[Pod]], ...] = (
    lambda table, identity: [pod for pod in table.pods if identity.name and pod.name == identity.name],
    lambda table, identity: [
        pod for pod in table.pods if identity.name and _normal(pod.name) == _normal(identity.name)
    ],
    lambda table, identity: [pod for pod in table.pods if identity.uid and pod.server_id == identity.uid],
    _by_address,
    lambda table, identity: [
        pod for pod in table.pods if identity.devices and pod.name is None and _cards(pod) == identity.devices
    ],
    _by_index,
)


def _own_part(pod: Pod, table: RankTable, identity: Identity) -> Pod:
    """Returns the pod without other pods' devices: Volcano writes the pods of a server as one entry."""
    if pod.name is not None or identity.nodes is None or len(table.pods) >= identity.nodes:
        return pod
    own = tuple(device for device in pod.devices if int(device.device_id) in identity.devices)
    if identity.devices and own and identity.device_count in (None, len(own)):
        return pod._replace(devices=own)
    if not identity.devices and identity.device_count == len(pod.devices):
        return pod
    raise ConfigError(
        f"the rank table has {len(table.pods)} servers for {identity.nodes} nodes, so server {pod.server_id} "
        f"may hold devices of several pods ({_show_pod(pod)}), and those of this pod are unknown: {identity}"
    )


def _show_pod(pod: Pod) -> str:
    return f"pod {pod.name} on server {pod.server_id}, {len(pod.devices)} devices"


def _normal(name: str | None) -> str:
    return re.sub("^modelarts-job-", "ma-job-", name or "")


def _of_another_job(pod: Pod, job_name: str | None) -> bool:
    """Tells if the name of a pod is one of another job: ModelArts' form is `<MA_VJ_NAME>-<task>-<index>`.

    Names of another form, such as `job7c0ffee-job-flowers-0`, are of no known job.
    """
    if job_name is None or pod.name is None:
        return False
    name, job = _normal(pod.name), _normal(job_name)
    return all(text.startswith("ma-job-") for text in (name, job)) and not name.startswith(f"{job}-")
