"""Finds the pod of a table that is this container."""

from __future__ import annotations

import re
from typing import Optional

from ma_boot.errors import ConfigError, listed
from ma_boot.rank_table.table import Pod, RankTable


def own_pod(
    table: RankTable,
    instance_name: Optional[str],
    host_ip: Optional[str],
    task_index: Optional[int],
    job_name: Optional[str] = None,
) -> Pod:
    """The pod that is this container.

    Pods are matched by exact name, by name with the prefix normalised (`modelarts-job-` to `ma-job-`), by
    `MA_CURRENT_HOST_IP`, and by `VC_TASK_INDEX` as the number at the end of the name (the position, if the
    table has no names); the first rule that matches exactly one pod decides. The only pod of a table matches
    unless both names are known. A pod whose name begins with that of another job than `job_name`
    (`MA_VJ_NAME`) matches by its exact name only. Raises `ConfigError` that lists the pods if no rule matches
    one.
    """
    pods, name, index = table.pods, instance_name, str(task_index)
    possible = [(place, pod) for place, pod in enumerate(pods) if not _of_another_job(pod, job_name)]
    if len(pods) == len(possible) == 1 and (name is None or pods[0].name is None):
        return pods[0]
    rules = [
        [pod for pod in pods if name and pod.name == name],
        [pod for pod in pods if name and pod.name and _normal(pod.name) == _normal(name)],
        [pod for _, pod in possible if host_ip and pod.server_id == host_ip],
        [pod for place, pod in possible if _index(pod, place) == index],
    ]
    for matching in rules:
        if len(matching) == 1:
            return matching[0]
    raise ConfigError(
        listed(
            "this node was not found in the rank table: "
            f"MA_CURRENT_INSTANCE_NAME={instance_name}, MA_CURRENT_HOST_IP={host_ip}, "
            f"VC_TASK_INDEX={task_index}, MA_VJ_NAME={job_name}; the table contains",
            [f"pod {pod.name} on server {pod.server_id}, {len(pod.devices)} devices" for pod in table.pods],
        )
    )


def _normal(name: str) -> str:
    return re.sub("^modelarts-job-", "ma-job-", name)


def _of_another_job(pod: Pod, job_name: Optional[str]) -> bool:
    """Whether the pod is called as those of another job: ModelArts calls them `<MA_VJ_NAME>-<task>-<index>`.

    Names of another form, such as `job7c0ffee-job-flowers-0`, do not tell.
    """
    if job_name is None or pod.name is None:
        return False
    name, job = _normal(pod.name), _normal(job_name)
    return all(one.startswith("ma-job-") for one in (name, job)) and not name.startswith(f"{job}-")


def _index(pod: Pod, place: int) -> str:
    return str(place) if pod.name is None else pod.name.rpartition("-")[2]
