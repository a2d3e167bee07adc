"""Finds the pod of a table that is this container."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Callable, NamedTuple

from ma_boot.errors import ConfigError, listed
from ma_boot.platform.rank_table.table import Pod, RankTable


class Identity(NamedTuple):
    """Facts by which a container finds itself in a table; None and empty values are unknown.

    `name` is the pod's name, `job` the job's name within names of pods, `uid` Kubernetes' id of the pod,
    `host` the address of its server. `addresses` are those of this container and its host, the most reliable
    first. `devices` are the physical numbers of its cards, `device_count` the number of cards that the
    platform promised. `number` is the node's number in the job of `nodes` nodes.
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


def own_pod(table: RankTable, who: Identity) -> Pod:
    """Returns the pod that is this container, with its own devices only.

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
    own = _only(table, who)
    for rule in _RULES:
        if own is not None:
            break
        matching = rule(table, who)
        own = matching[0] if len(matching) == 1 else None
    if own is None:
        raise ConfigError(
            listed(
                f"this node was not found in the rank table: {who}; the table contains",
                [_described(pod) for pod in table.pods],
            )
        )
    return _own_part(own, table, who)


def _only(table: RankTable, who: Identity) -> Pod | None:
    if len(table.pods) == 1 and not _of_another_job(table.pods[0], who.job):
        return table.pods[0] if who.name is None or table.pods[0].name is None else None
    return None


def _by_address(table: RankTable, who: Identity) -> list[Pod]:
    """Returns the pod with the first address that is unique: a host may have several pods."""
    possible = [pod for pod in table.pods if not _of_another_job(pod, who.job)]
    for address in who.addresses:
        for key in ("container_ip", "server_id", "host_ip"):
            matching = [
                pod
                for pod in possible
                if address == (pod.server_id if key == "server_id" else pod.more.get(key))
            ]
            if len(matching) == 1:
                return matching
    return []


def _by_index(table: RankTable, who: Identity) -> list[Pod]:
    if who.number is None or (who.nodes is None and len(table.pods) > 1):
        return []
    numbered = [
        pod
        for place, pod in enumerate(table.pods)
        if (
            _place(table, who) == place
            if pod.name is None
            else pod.name.rpartition("-")[2] == str(who.number)
        )
    ]
    mine = [pod for pod in numbered if not who.devices or _cards(pod) <= who.devices]
    return [pod for pod in mine if not _of_another_job(pod, who.job)]


def _cards(pod: Pod) -> set[int]:
    return {int(device.device_id) for device in pod.devices}


def _is_address(text: str) -> bool:
    return text.count(".") == 3 and text.replace(".", "").isdecimal()


def _place(table: RankTable, who: Identity) -> int | None:
    """Returns the place of this node in a table without names, None if the place has no meaning.

    MindCluster numbers pods by itself; it writes their addresses (`container_ip`). A table of addresses that
    lacks the one of this host is an earlier one.
    """
    servers = [pod.server_id for pod in table.pods]
    if who.host and who.host not in servers and all(_is_address(server) for server in servers):
        return None
    whole = len(table.pods) == (who.nodes or 1)
    return who.number if whole and not any("container_ip" in pod.more for pod in table.pods) else None


_RULES: tuple[Callable[[RankTable, Identity], Sequence[Pod]], ...] = (
    lambda table, who: [pod for pod in table.pods if who.name and pod.name == who.name],
    lambda table, who: [pod for pod in table.pods if who.name and _normal(pod.name) == _normal(who.name)],
    lambda table, who: [pod for pod in table.pods if who.uid and pod.server_id == who.uid],
    _by_address,
    lambda table, who: [
        pod for pod in table.pods if who.devices and pod.name is None and _cards(pod) == who.devices
    ],
    _by_index,
)


def _own_part(pod: Pod, table: RankTable, who: Identity) -> Pod:
    """Returns the pod without devices of other pods: Volcano writes all pods of a server as one entry."""
    if pod.name is not None or who.nodes is None or len(table.pods) >= who.nodes:
        return pod
    own = tuple(device for device in pod.devices if int(device.device_id) in who.devices)
    if who.devices and own and who.device_count in (None, len(own)):
        return pod._replace(devices=own)
    if not who.devices and who.device_count == len(pod.devices):
        return pod
    raise ConfigError(
        f"the rank table has {len(table.pods)} servers for {who.nodes} nodes, so server {pod.server_id} may "
        f"hold devices of several pods ({_described(pod)}), and which are this one's is not known: {who}"
    )


def _described(pod: Pod) -> str:
    return f"pod {pod.name} on server {pod.server_id}, {len(pod.devices)} devices"


def _normal(name: str | None) -> str:
    return re.sub("^modelarts-job-", "ma-job-", name or "")


def _of_another_job(pod: Pod, job_name: str | None) -> bool:
    """Returns whether the pod's name is one of another job: on ModelArts `<MA_VJ_NAME>-<task>-<index>`.

    Names of another form, such as `job7c0ffee-job-flowers-0`, belong to no known job.
    """
    if job_name is None or pod.name is None:
        return False
    name, job = _normal(pod.name), _normal(job_name)
    return all(text.startswith("ma-job-") for text in (name, job)) and not name.startswith(f"{job}-")
