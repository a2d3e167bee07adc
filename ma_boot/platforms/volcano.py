"""Volcano, as on Lite Cluster and CCE: its plugins env, svc and pytorch (volcano-sh/volcano).

`VC_TASK_INDEX` counts the pods of one task: of a job with the tasks master and worker two pods have number 0.
Then the place among the hosts of all tasks is the node's number, the master's first.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

from ma_boot.platforms.facts import Around, Fact, Facts, add, addresses_in

PER_NODE = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # of the plugin pytorch
_HOSTS, _COUNT = "_HOSTS", "_NUM"


def facts(around: Around, problems: List[str]) -> Facts:
    """What Volcano says; the count of nodes is that of a child job if there is a HyperJob around it."""
    found: Facts = {}
    _by_pytorch(around, found, problems)
    hosts = _hosts(around)
    everyone = [host for names in hosts.values() for host in names]
    if any(host.partition(".")[0] == around.hostname for host in everyone):  # else that of the server
        found["pod"] = Fact(around.hostname, "host name")
    if everyone:
        source = ", ".join(f"VC_{task}_HOSTS" for task in hosts)
        found["hosts"] = Fact(",".join(everyone), source)
        job = everyone[0].partition(".")[2].partition(".")[0]
        if job and not job.isdecimal():  # hosts may be addresses
            found["job"] = Fact(job, source)
    counts = _counts(around, problems) or {task: len(names) for task, names in hosts.items()}
    if counts and "nodes" not in found:
        source = " + ".join(f"VC_{task}_NUM" for task in counts)
        found["nodes"] = Fact(str(sum(counts.values())), source)
        found["part"] = Fact("yes", source)
    if "node" not in found:
        _by_place(around, everyone, len(counts), found)
    if "node" not in found:
        for what in ("nodes", "part", "hosts"):
            found.pop(what, None)
        _check_known(around, list(counts), problems)
    retries = around.number("VC_JOB_RETRY_COUNT", problems)
    if retries is not None:
        found["schedules"] = Fact(str(retries + 1), "VC_JOB_RETRY_COUNT + 1")
    add(found, "addresses", addresses_in(around, "POD_IP"), problems)
    add(found, "host", around.given("HOST_IP"), problems)
    add(found, "uid", around.given("POD_UID"), problems)
    return found


def per_node(around: Around) -> Tuple[str, ...]:
    """The variables that are the node's, by names that mean a rank to the training."""
    return PER_NODE if _has_pytorch(around) else ()


def _has_pytorch(around: Around) -> bool:
    return all(around.given(name) for name in PER_NODE[:3]) and not around.given("LOCAL_WORLD_SIZE")


def _by_pytorch(around: Around, found: Facts, problems: List[str]) -> None:
    """The plugin pytorch: `RANK` and `WORLD_SIZE` are those of nodes."""
    if not _has_pytorch(around):
        return
    for what, name in (("node", "RANK"), ("nodes", "WORLD_SIZE"), ("port", "MASTER_PORT")):
        if around.number(name, problems) is not None:
            add(found, what, around.given(name), problems)
    add(found, "master", around.given("MASTER_ADDR"), problems)


def _hosts(around: Around) -> Dict[str, List[str]]:
    """The hosts by task, that of the master first; each pod of the job finds the same order."""
    by_task: Dict[str, List[str]] = {}
    for name, text in around.environ.items():
        if name.startswith("VC_") and name.endswith(_HOSTS) and text.strip():
            by_task[name[3 : -len(_HOSTS)]] = [host.strip() for host in text.split(",") if host.strip()]
    if not by_task:  # the plugin svc without variables
        by_task = {
            task.upper().replace("-", "_"): list(names) for task, names in around.host_files.items() if names
        }
    return dict(sorted(by_task.items(), key=lambda item: (item[0] != "MASTER", item[0])))


def _counts(around: Around, problems: List[str]) -> Dict[str, int]:
    names = [name for name in around.environ if name.startswith("VC_") and name.endswith(_COUNT)]
    counts = {name[3 : -len(_COUNT)]: around.number(name, problems) for name in sorted(names)}
    return {task: count for task, count in counts.items() if count is not None}


def _check_known(around: Around, tasks: List[str], problems: List[str]) -> None:
    """Whether a rank table may tell which node this is; without one it must not start as the first."""
    index = around.given("VC_TASK_INDEX", "VK_TASK_INDEX")
    if around.given("RANK_TABLE_FILE", "RANK_TABLE_FILE_V_1_0", "GLOBAL_RANK_TABLE_FILE") or around.tables:
        return
    if len(tasks) > 1:
        problems.append(
            f"the job has the tasks {', '.join(tasks)}, and the host name {around.hostname} is not in "
            "VC_*_HOSTS: set MA_NUM_HOSTS and VC_TASK_INDEX, its number among all nodes, by the job's YAML"
        )
    elif index is not None and index.value != "0":
        problems.append(
            f"{index.source} is {index.value}, but nothing tells how many nodes the job has: add the plugin "
            "svc to the job, or set MA_NUM_HOSTS by its YAML"
        )


def _by_place(around: Around, everyone: List[str], tasks: int, found: Facts) -> None:
    index = around.given("VC_TASK_INDEX", "VK_TASK_INDEX")
    if tasks == 1 and index is not None:
        found["node"] = index
    if tasks <= 1:
        return
    places = [i for i, host in enumerate(everyone) if host.partition(".")[0] == around.hostname]
    if len(places) == 1:
        found["node"] = Fact(str(places[0]), "place of the host name in VC_*_HOSTS")
