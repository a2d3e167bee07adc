"""What ModelArts tells a node about its job: the environment variables as one frozen value."""

from __future__ import annotations

import os.path
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from ma_boot.errors import ConfigError, listed
from ma_boot.rank_table import Identity

PLATFORM_UID, PLATFORM_GID = 1000, 100  # ma-user and ma-group: ModelArts' specifications for custom images
PLATFORM_HOME = "/home/ma-user"
TABLE_NAME = "jobstart_hccl.json"
# The names of ModelArts' first version (V1), which its guide on permission problems pairs with today's.
OLD_NAMES = {
    "DLS_TASK_NUMBER": "MA_NUM_HOSTS",
    "DLS_TASK_INDEX": "VC_TASK_INDEX",
    "BATCH_TASK_LOG_PATH": "MA_LOG_DIR",
    "VK_TASK_INDEX": "VC_TASK_INDEX",  # Volcano's own name
}
_TASK_COUNT = r"VC_\w+_NUM"
_OLD_HOSTS = r"BATCH_CUSTOM(\d+)_HOSTS"


class JobEnvironment(NamedTuple):
    """One node's view of its job (ModelArts documentation, develop-modelarts-0104 and -1416).

    `name` is the job's name as used in log file names, `platform_name` as used in the names of its pods, None
    outside of the platform; `node_rank` counts from 0; `node_count_given` is False if the count is not the
    platform's for the whole job, but Volcano's for a part of it, or a default of 1, so that a rank table may
    have more nodes; `device_count` is the number of cards of this container, None if unknown;
    `worker_hosts` are the nodes' addresses in order of node rank; `host` is the platform's name for this
    container. `rank_table` is a file, or None if the job has none; `start_count` and `schedule_count` are how
    often the platform has run the boot command in this container, and scheduled the job
    (`MA_PROC_START_CNT`, `MA_SCHEDULE_CNT`). `route_plan` is whether the user asked for dynamic routing.

    `group_rank` is the node's position in the order of the ranks, and `master_index` the master's among the
    hosts: `node_rank` and 0, unless the platform has reordered the nodes by their network (`RANK_AFTER_ACC`,
    `MA_MASTER_INDEX`). `replaced` lists old variables that were read in place of today's.
    """

    name: str
    platform_name: Optional[str]
    home: str
    mount_path: str
    job_dir: str
    log_dir: str
    node_rank: int
    node_count: int
    node_count_given: bool
    device_count: Optional[int]
    worker_hosts: Tuple[str, ...]
    instance_name: Optional[str]
    host: str
    start_count: int
    schedule_count: int
    host_ip: Optional[str]
    rank_table: Optional[str]
    route_plan: bool
    group_rank: int
    master_index: int
    replaced: Tuple[str, ...] = ()

    @property
    def failure_file(self) -> str:
        """The failure for programs, as JSON; the training may write the file itself."""
        return os.path.join(self.log_dir, f"{self.name}-node-{self.node_rank}-failure.json")

    @property
    def page_file(self) -> str:
        """The HTML report of this node."""
        return os.path.join(self.log_dir, f"{self.name}-node-{self.node_rank}-report.html")

    @property
    def events_file(self) -> str:
        """The events of this node, as JSON lines."""
        return os.path.join(self.log_dir, f"{self.name}-node-{self.node_rank}-events.jsonl")

    @property
    def identity(self) -> Identity:
        """By what this container is found in a rank table."""
        return Identity(
            name=self.instance_name,
            job=self.platform_name,
            addresses=(self.host_ip,) if self.host_ip else (),
            device_count=self.device_count,
            number=self.node_rank,
            nodes=self.node_count if self.node_count_given or self.node_count > 1 else None,
        )

    def event(self) -> Dict[str, Union[str, int]]:
        """The fields of the event at each start of the boot command."""
        return {
            "name": self.name,
            "nodes": self.node_count,
            "host": self.host,
            "start_count": self.start_count,
            "schedule_count": self.schedule_count,
        }

    def summary(self) -> str:
        """The job in one line: `name, node 0 of 2`, and whether it was started or scheduled before."""
        text = f"{self.name}, node {self.node_rank} of {self.node_count}"
        if self.start_count > 1:
            text += f", start {self.start_count} in this container (MA_PROC_START_CNT)"
        if self.schedule_count > 1:
            text += f", scheduled {self.schedule_count} times (MA_SCHEDULE_CNT)"
        if self.group_rank != self.node_rank:
            text += f", reordered to node {self.group_rank} (RANK_AFTER_ACC)"
        if self.replaced:
            text += f"; old variables used: {', '.join(self.replaced)}"
        return text


def instance_name(environ: Mapping[str, str]) -> str:
    """The platform's name for this container; empty outside of the platform."""
    return environ.get("BATCH_TASK_CURRENT_INSTANCE") or environ.get("MA_CURRENT_INSTANCE_NAME") or ""


def read_job(environ: Mapping[str, str], hostname: str) -> JobEnvironment:
    """Reads the platform's variables; raises `ConfigError` with every problem.

    Unset variables have the platform's default values, so that `ma_boot` also runs outside of it.
    """
    problems: List[str] = []
    environ, replaced = _with_replacements(environ)
    home = environ.get("MA_HOME") or environ.get("HOME") or PLATFORM_HOME
    mount_path = environ.get("MA_MOUNT_PATH") or os.path.join(home, "modelarts")
    node_count = _number(environ, "MA_NUM_HOSTS", 1, _pods_of_volcano(environ), problems)
    node_rank = 0
    if node_count > 1:  # the documentation calls VC_TASK_INDEX meaningless on a single node
        node_rank = _node(environ, "VC_TASK_INDEX", None, node_count, problems)
    group_rank = _node(environ, "RANK_AFTER_ACC", node_rank, node_count, problems)
    master_index = _node(environ, "MA_MASTER_INDEX", 0, node_count, problems)
    device_count = _number(environ, "MA_NUM_GPUS", 0, 0, problems)
    start_count = _number(environ, "MA_PROC_START_CNT", 0, 1, problems)
    schedule_count = _number(environ, "MA_SCHEDULE_CNT", 0, 1, problems)
    instance = instance_name(environ)
    if problems:
        raise ConfigError(
            listed(
                "the platform's variables are inconsistent (do not set them in the job form or the image):",
                problems,
            )
        )
    return JobEnvironment(
        name=_job_name(environ, hostname),
        platform_name=environ.get("MA_VJ_NAME") or environ.get("BATCH_JOB_ID") or None,
        home=home,
        mount_path=mount_path,
        job_dir=environ.get("MA_JOB_DIR") or os.path.join(mount_path, "user-job-dir"),
        log_dir=environ.get("MA_LOG_DIR") or os.path.join(mount_path, "log"),
        node_rank=node_rank,
        node_count=node_count,
        node_count_given=bool(environ.get("MA_NUM_HOSTS")),
        device_count=device_count or None,
        worker_hosts=tuple(
            host.strip() for host in environ.get("VC_WORKER_HOSTS", "").split(",") if host.strip()
        ),
        instance_name=instance or None,
        host=instance or hostname,
        start_count=start_count,
        schedule_count=schedule_count,
        host_ip=environ.get("MA_CURRENT_HOST_IP") or None,
        rank_table=environ.get("RANK_TABLE_FILE_V_1_0") or _table_file(environ.get("RANK_TABLE_FILE", "")),
        route_plan=environ.get("ROUTE_PLAN", "").lower() == "true",
        group_rank=group_rank,
        master_index=master_index,
        replaced=replaced,
    )


def _pods_of_volcano(environ: Mapping[str, str]) -> int:
    """How many pods Volcano's plugin svc tells of (`VC_<TASK>_NUM`), if the job has one task; else 1.

    The pods of several tasks have no order, and `VC_TASK_INDEX` counts those of one task.
    """
    counts = [
        text
        for name, text in environ.items()
        if name[:3] == "VC_" and re.fullmatch(_TASK_COUNT, name) and text.isdecimal()
    ]
    return max(1, int(counts[0])) if len(counts) == 1 else 1


def _with_replacements(environ: Mapping[str, str]) -> Tuple[Dict[str, str], Tuple[str, ...]]:
    """The environment with today's names for old ones, unless both are set; and what was replaced.

    `BATCH_CUSTOM<N>_HOSTS` (`host:port` of node N) together become `VC_WORKER_HOSTS`. The launcher reads
    `BATCH_JOB_ID` and `BATCH_TASK_CURRENT_INSTANCE` beside their successors; so does `read_job`.
    """
    result = dict(environ)
    replaced: List[str] = []
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


def _number(
    environ: Mapping[str, str], name: str, lowest: int, default: Optional[int], problems: List[str]
) -> int:
    """The variable as a number; an invalid one is added to `problems`."""
    text = environ.get(name, "").strip()
    if not text and default is not None:
        return default
    if text.isdecimal() and int(text) >= lowest:
        return int(text)
    found = repr(text) if text else "not set"
    problems.append(f"{name} is {found}: expected an integer of at least {lowest}")
    return lowest


def _node(
    environ: Mapping[str, str], name: str, default: Optional[int], count: int, problems: List[str]
) -> int:
    """The variable as the index of a node."""
    node = _number(environ, name, 0, default, problems)
    if node >= count:
        problems.append(f"{name} is {node}, MA_NUM_HOSTS is {count}: expected 0 to {count - 1}")
    return node


def _job_name(environ: Mapping[str, str], hostname: str) -> str:
    """The name in log files, as in the platform's launcher: V1, else V2 in its log form, else the host."""
    if environ.get("BATCH_JOB_ID"):
        return environ["BATCH_JOB_ID"]
    if environ.get("MA_VJ_NAME"):
        return environ["MA_VJ_NAME"].replace("ma-job", "modelarts-job", 1)
    return hostname


def _table_file(value: str) -> Optional[str]:
    """The platform names a directory (`/user/config`); HCCL and users name a `.json` file."""
    if not value:
        return None
    return value if value.endswith(".json") else os.path.join(value, TABLE_NAME)
