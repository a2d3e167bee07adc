"""ModelArts' own variables (develop-modelarts-0104 and -1416), also where a job's YAML sets them by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Callable

from ma_boot.platform.recognition.place import NodePlace, Surroundings, VariableReader

TABLE_NAME = "jobstart_hccl.json"
MINDCLUSTER_TABLE = "hccl.json"
# The names of ModelArts' first version (V1), which its guide on permission problems pairs with today's.
OLD_NAMES = {
    "DLS_TASK_NUMBER": "MA_NUM_HOSTS",
    "DLS_TASK_INDEX": "VC_TASK_INDEX",
    "BATCH_TASK_LOG_PATH": "MA_LOG_DIR",
    # Volcano's own name.
    "VK_TASK_INDEX": "VC_TASK_INDEX",
}
_OLD_HOSTS = r"BATCH_CUSTOM(\d+)_HOSTS"
# Variables for a rank table: that of volcano-global, for all clusters, comes before that for one cluster.
TABLE_VARIABLES = ("RANK_TABLE_FILE_V_1_0", "GLOBAL_RANK_TABLE_FILE", "RANK_TABLE_FILE")


def with_todays_names(environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns the environment with today's names for old ones, unless both are set; and the replacements.

    `BATCH_CUSTOM<N>_HOSTS` (`host:port` of node N) together become `VC_WORKER_HOSTS`. The launcher reads
    `BATCH_JOB_ID` and `BATCH_TASK_CURRENT_INSTANCE` beside their successors, as `read_place` does.
    """
    result = dict(environ)
    replaced: list[str] = []
    for old, new in OLD_NAMES.items():
        if environ.get(old) and not result.get(new):
            result[new] = environ[old]
            replaced.append(f"{old} for {new}")
    old_hosts = (re.fullmatch(_OLD_HOSTS, name) for name in environ if name.startswith("BATCH_"))
    numbers = sorted(int(match.group(1)) for match in old_hosts if match)
    if numbers and not environ.get("VC_WORKER_HOSTS"):
        hosts = (environ[f"BATCH_CUSTOM{number}_HOSTS"].rpartition(":")[0] for number in numbers)
        result["VC_WORKER_HOSTS"] = ",".join(hosts)
        replaced.append("BATCH_CUSTOM<N>_HOSTS for VC_WORKER_HOSTS")
    return result, tuple(replaced)


def read_place(around: Surroundings, problems: list[str], find_table: Callable[[str], str]) -> NodePlace:
    """Reads ModelArts' variables by today's names or old ones, without those of `read_task`.

    `find_table` returns the file of the rank table in a directory.
    """
    reading = _reading(around, problems)
    reading.text("job", "MA_VJ_NAME", "BATCH_JOB_ID")
    reading.count("nodes", "MA_NUM_HOSTS", lowest=1)
    reading.count("devices", "MA_NUM_GPUS")
    reading.text("pod", "BATCH_TASK_CURRENT_INSTANCE", "MA_CURRENT_INSTANCE_NAME")
    reading.text("host", "MA_CURRENT_HOST_IP")
    reading.count("schedules", "MA_SCHEDULE_CNT")
    table = reading.value(*TABLE_VARIABLES)
    if table is not None:
        # The platforms name the directory, users may name the file.
        file = table if table.endswith(".json") else find_table(table)
        reading.put("table", file, reading.name_of(*TABLE_VARIABLES) or "")
    return reading.place()


def read_task(around: Surroundings, problems: list[str]) -> NodePlace:
    """Reads the node's number and the hosts of all nodes, by names that Volcano has for a part of the job."""
    reading = _reading(around, problems)
    reading.count("node", "VC_TASK_INDEX")
    hosts = (host.strip() for host in (reading.value("VC_WORKER_HOSTS") or "").split(","))
    reading.put("hosts", tuple(filter(None, hosts)) or None, "VC_WORKER_HOSTS")
    return reading.place()


def _reading(around: Surroundings, problems: list[str]) -> VariableReader:
    return VariableReader(around._replace(environ=with_todays_names(around.environ)[0]), problems)
