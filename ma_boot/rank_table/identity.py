"""Which pod of a table this container is."""

from __future__ import annotations

from typing import Optional

from ma_boot.errors import ConfigError, listed
from ma_boot.rank_table.table import Pod, RankTable


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
    pods, name, index = table.pods, instance_name, str(task_index)
    rules = [
        [pod for pod in pods if name and pod.name == name],
        [pod for pod in pods if name and pod.name and _normal(pod.name) == _normal(name)],
        [pod for pod in pods if host_ip and pod.server_id == host_ip],
        [pod for place, pod in enumerate(pods) if _index(pod, place) == index],
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
