"""Volcano, as on Lite Cluster and CCE: its plugins env, svc and pytorch (volcano-sh/volcano).

`VC_TASK_INDEX` counts the pods of one task: of a job with the tasks master and worker two pods have number 0.
Then the place among the hosts of all tasks is the node's number, the master's first.
"""

from __future__ import annotations

from ma_boot.platform.recognition.modelarts import TABLE_VARIABLES
from ma_boot.platform.recognition.place import NodePlace, Surroundings, VariableReader

# Variables of the plugin pytorch; RANK and WORLD_SIZE count nodes.
PYTORCH_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_HOSTS, _COUNT = "_HOSTS", "_NUM"
_INDEX = ("VC_TASK_INDEX", "VK_TASK_INDEX")


def read_place(around: Surroundings, problems: list[str]) -> NodePlace:
    """Reads Volcano's variables; in a HyperJob, the number of nodes is that of its child job."""
    reading = VariableReader(around, problems)
    if _has_pytorch(reading):
        reading.count("node", "RANK")
        reading.count("nodes", "WORLD_SIZE")
        reading.count("port", "MASTER_PORT")
        reading.text("master", "MASTER_ADDR")
    hosts = _hosts(around)
    all_hosts = [host for names in hosts.values() for host in names]
    # A pod with hostNetwork has the host name of its server.
    if any(host.partition(".")[0] == around.hostname for host in all_hosts):
        reading.put("pod", around.hostname, "host name")
    if all_hosts:
        source = ", ".join(f"VC_{task}_HOSTS" for task in hosts)
        reading.put("hosts", tuple(all_hosts), source)
        job = all_hosts[0].partition(".")[2].partition(".")[0]
        # Hosts may be addresses.
        if job and not job.isdecimal():
            reading.put("job", job, source)
    counts = _counts(reading) or {task: len(names) for task, names in hosts.items()}
    if counts and "nodes" not in reading:
        source = " + ".join(f"VC_{task}_NUM" for task in counts)
        reading.put("nodes", sum(counts.values()), source)
        reading.put("is_part", True, source)
    if "node" not in reading:
        _read_number(reading, all_hosts, len(counts))
    if "node" not in reading:
        # Without the node's number these values may be those of one task.
        reading.drop("nodes", "is_part", "hosts")
        _check_number(reading, list(counts))
    retries = reading.number("VC_JOB_RETRY_COUNT")
    reading.put("schedules", None if retries is None else retries + 1, "VC_JOB_RETRY_COUNT + 1")
    address = reading.value("POD_IP")
    reading.put("addresses", (address,) if address else None, "POD_IP")
    reading.text("host", "HOST_IP")
    reading.text("uid", "POD_UID")
    return reading.place()


def node_variables(around: Surroundings) -> tuple[str, ...]:
    """Returns the variables of the node with names that the training takes for those of a rank."""
    return PYTORCH_VARIABLES if _has_pytorch(VariableReader(around, [])) else ()


def _has_pytorch(reading: VariableReader) -> bool:
    return all(reading.value(name) for name in PYTORCH_VARIABLES[:3]) and not reading.value(
        "LOCAL_WORLD_SIZE"
    )


def _hosts(around: Surroundings) -> dict[str, list[str]]:
    """Returns the hosts by task, the master's first; the order is the same in each pod of the job."""
    by_task: dict[str, list[str]] = {}
    for name, text in around.environ.items():
        if name.startswith("VC_") and name.endswith(_HOSTS) and text.strip():
            by_task[name[3 : -len(_HOSTS)]] = [host.strip() for host in text.split(",") if host.strip()]
    # The plugin svc may write files without variables.
    if not by_task:
        by_task = {
            task.upper().replace("-", "_"): list(names) for task, names in around.host_files.items() if names
        }
    return dict(sorted(by_task.items(), key=lambda item: (item[0] != "MASTER", item[0])))


def _counts(reading: VariableReader) -> dict[str, int]:
    environ = reading.around.environ
    names = [name for name in environ if name.startswith("VC_") and name.endswith(_COUNT)]
    counts = {name[3 : -len(_COUNT)]: reading.number(name) for name in sorted(names)}
    return {task: count for task, count in counts.items() if count is not None}


def _check_number(reading: VariableReader, tasks: list[str]) -> None:
    """Adds a problem if the node's number stays unknown, as it must not start as node 0 then."""
    index = reading.value(*_INDEX)
    if has_table(reading.around):
        return
    if len(tasks) > 1:
        reading.problems.append(
            f"the job has the tasks {', '.join(tasks)}, and the host name {reading.around.hostname} is not "
            "in VC_*_HOSTS: set MA_NUM_HOSTS and VC_TASK_INDEX, its number among all nodes, by the job's YAML"
        )
    elif index is not None and index != "0":
        reading.problems.append(
            f"{reading.name_of(*_INDEX)} is {index}, but the number of nodes is unknown: add the plugin "
            "svc to the job, or set MA_NUM_HOSTS by its YAML"
        )


def has_table(around: Surroundings) -> bool:
    """Tells if a rank table, or a variable of ModelArts, has the number of nodes."""
    names = (*TABLE_VARIABLES, "MA_NUM_HOSTS")
    return bool(around.tables) or any(around.environ.get(name, "").strip() for name in names)


def _read_number(reading: VariableReader, all_hosts: list[str], tasks: int) -> None:
    if tasks == 1:
        reading.count("node", *_INDEX)
    if tasks <= 1:
        return
    places = [i for i, host in enumerate(all_hosts) if host.partition(".")[0] == reading.around.hostname]
    if len(places) == 1:
        reading.put("node", places[0], "place of the host name in VC_*_HOSTS")
