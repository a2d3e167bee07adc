"""What ModelArts tells a node about its job: the environment variables as one frozen value."""

from __future__ import annotations

import os.path
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from ma_boot.errors import ConfigError, listed
from ma_boot.platforms import Around, Recognised, Whereabouts, recognised, whereabouts
from ma_boot.rank_table import Identity

PLATFORM_UID, PLATFORM_GID = 1000, 100  # ma-user and ma-group: ModelArts' specifications for custom images
PLATFORM_HOME = "/home/ma-user"
TABLE_NAME = "jobstart_hccl.json"
JOB_TOKEN = "MABOOT_JOB_TOKEN"  # a variable of the user's: by it the nodes know each other
# The names of ModelArts' first version (V1), which its guide on permission problems pairs with today's.
OLD_NAMES = {
    "DLS_TASK_NUMBER": "MA_NUM_HOSTS",
    "DLS_TASK_INDEX": "VC_TASK_INDEX",
    "BATCH_TASK_LOG_PATH": "MA_LOG_DIR",
    "VK_TASK_INDEX": "VC_TASK_INDEX",  # Volcano's own name
}
# What other platforms say, in the words of ModelArts.
_WORDS = {
    "job": "MA_VJ_NAME",
    "node": "VC_TASK_INDEX",
    "nodes": "MA_NUM_HOSTS",
    "devices": "MA_NUM_GPUS",
    "hosts": "VC_WORKER_HOSTS",
    "pod": "MA_CURRENT_INSTANCE_NAME",
    "host": "MA_CURRENT_HOST_IP",
    "table": "RANK_TABLE_FILE",
    "schedules": "MA_SCHEDULE_CNT",
}
_OF_A_TASK = {"VC_TASK_INDEX", "VC_WORKER_HOSTS"}  # Volcano has the same names for a part of the job
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
    uid: Optional[str] = None
    addresses: Tuple[str, ...] = ()
    master: Optional[str] = None
    master_port: Optional[int] = None
    whereabouts: Whereabouts = Whereabouts(Recognised("bare", ""), {})

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
            uid=self.uid,
            host=self.host_ip,
            addresses=(*((self.host_ip,) if self.host_ip else ()), *self.addresses),
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
            fact = self.whereabouts.facts.get("schedules")
            source = fact.source if fact is not None else "MA_SCHEDULE_CNT"
            text += f", scheduled {self.schedule_count} times ({source})"
        if self.group_rank != self.node_rank:
            text += f", reordered to node {self.group_rank} (RANK_AFTER_ACC)"
        if self.replaced:
            text += f"; old variables used: {', '.join(self.replaced)}"
        return text


def instance_name(environ: Mapping[str, str]) -> str:
    """The platform's name for this container; empty outside of the platform."""
    return environ.get("BATCH_TASK_CURRENT_INSTANCE") or environ.get("MA_CURRENT_INSTANCE_NAME") or ""


def job_directory(environ: Mapping[str, str]) -> str:
    """Where the platform puts the job's code, in a directory of its own."""
    return environ.get("MA_JOB_DIR") or os.path.join(_mount_path(environ), "user-job-dir")


def _mount_path(environ: Mapping[str, str]) -> str:
    return environ.get("MA_MOUNT_PATH") or os.path.join(_home(environ), "modelarts")


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("MA_HOME") or environ.get("HOME") or PLATFORM_HOME


def read_job(
    environ: Mapping[str, str],
    hostname: str,
    platform: Optional[str] = None,
    look: Callable[[Mapping[str, str], str], Around] = Around,
) -> JobEnvironment:
    """Reads the platform's variables; raises `ConfigError` with every problem.

    `platform` is the one that the user chose; `look` finds what is around the node, for other platforms than
    ModelArts. Unset variables have ModelArts' default values, so that `ma_boot` also runs without a platform.
    """
    found = _whereabouts(environ, hostname, platform, look)
    given = bool(environ.get("MA_NUM_HOSTS") or environ.get("DLS_TASK_NUMBER"))
    if "nodes" in found.facts and (found.platform.chosen or not given):
        given = "part" not in found.facts
    environ, replaced = _with_replacements(_in_words_of_modelarts(environ, found))
    numbers = _numbers(environ, found)
    mount_path = _mount_path(environ)
    instance = instance_name(environ)
    return JobEnvironment(
        name=_job_name(environ, hostname),
        platform_name=environ.get("MA_VJ_NAME") or environ.get("BATCH_JOB_ID") or None,
        home=_home(environ),
        mount_path=mount_path,
        job_dir=job_directory(environ),
        log_dir=environ.get("MA_LOG_DIR") or os.path.join(mount_path, "log"),
        node_count_given=given,
        device_count=numbers.pop("device_count") or None,
        worker_hosts=tuple(
            host.strip().strip("[]") for host in environ.get("VC_WORKER_HOSTS", "").split(",") if host.strip()
        ),
        instance_name=instance or None,
        host=instance or hostname,
        host_ip=environ.get("MA_CURRENT_HOST_IP") or None,
        rank_table=_rank_table(environ),
        route_plan=environ.get("ROUTE_PLAN", "").lower() == "true",
        replaced=replaced,
        **numbers,
        **_of_other_platforms(found),
    )


def _whereabouts(
    environ: Mapping[str, str],
    hostname: str,
    chosen: Optional[str],
    look: Callable[[Mapping[str, str], str], Around],
) -> Whereabouts:
    """What the platform says; nothing more than its variables if this is a whole job of ModelArts."""
    platform = recognised(environ, chosen)
    if platform.name == "bare" or (platform.name == "modelarts" and environ.get("MA_NUM_HOSTS")):
        return Whereabouts(platform, {})
    return whereabouts(platform, look(environ, hostname))


def _in_words_of_modelarts(environ: Mapping[str, str], found: Whereabouts) -> Mapping[str, str]:
    """The environment with what another platform says; ModelArts' own variables, set by hand, come first."""
    said = {_WORDS[what]: fact.value for what, fact in found.facts.items() if what in _WORDS}
    if not found.platform.chosen:
        kept = (name for name in said if name not in _OF_A_TASK and environ.get(name))
        said.update({name: environ[name] for name in kept})
    return {**environ, **said}


def _of_other_platforms(found: Whereabouts) -> Dict[str, Any]:
    """The fields of a job that ModelArts has no variables for."""
    said = {what: fact.value for what, fact in found.facts.items()}
    return {
        "uid": said.get("uid"),
        "addresses": tuple(said["addresses"].split(",")) if "addresses" in said else (),
        "master": said["master"].strip("[]") if "master" in said else None,
        "master_port": int(said["port"]) if "port" in said else None,
        "whereabouts": found,
    }


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


def _numbers(environ: Mapping[str, str], found: Whereabouts) -> Dict[str, Any]:
    """The fields of a job that are numbers; raises `ConfigError` with every variable that is none."""
    names = {
        _WORDS[what]: fact.source
        for what, fact in found.facts.items()
        if what in _WORDS and environ.get(_WORDS[what]) == fact.value
    }
    read = _Variables(environ, names, [])
    count = read.number("MA_NUM_HOSTS", 1, 1)
    # The documentation calls VC_TASK_INDEX meaningless on a single node.
    rank = read.node("VC_TASK_INDEX", None, count) if count > 1 else 0
    numbers = {
        "node_count": count,
        "node_rank": rank,
        "group_rank": read.node("RANK_AFTER_ACC", rank, count),
        "master_index": read.node("MA_MASTER_INDEX", 0, count),
        "device_count": read.number("MA_NUM_GPUS", 0, 0),
        "start_count": read.number("MA_PROC_START_CNT", 0, 1),
        "schedule_count": read.number("MA_SCHEDULE_CNT", 0, 1),
    }
    if read.problems:
        raise ConfigError(
            listed(
                "the platform's variables are inconsistent (do not set them in the job form or the image):",
                read.problems,
            )
        )
    return numbers


class _Variables(NamedTuple):
    """Reads numbers and collects what is wrong with them; `names` are what another platform calls them."""

    environ: Mapping[str, str]
    names: Mapping[str, str]
    problems: List[str]

    def number(self, name: str, lowest: int, default: Optional[int]) -> int:
        """The variable as a number; an invalid one is added to the problems."""
        text = self.environ.get(name, "").strip()
        if not text and default is not None:
            return default
        if text.isdecimal() and int(text) >= lowest:
            return int(text)
        found = repr(text) if text else "not set"
        self.problems.append(
            f"{self.names.get(name, name)} is {found}: expected an integer of at least {lowest}"
        )
        return lowest

    def node(self, name: str, default: Optional[int], count: int) -> int:
        """The variable as the index of a node."""
        node = self.number(name, 0, default)
        if node >= count:
            own, nodes = (self.names.get(one, one) for one in (name, "MA_NUM_HOSTS"))
            self.problems.append(f"{own} is {node}, {nodes} is {count}: expected 0 to {count - 1}")
        return node


def _job_name(environ: Mapping[str, str], hostname: str) -> str:
    """The name in log files, as in the platform's launcher: V1, else V2 in its log form, else the host."""
    if environ.get("BATCH_JOB_ID"):
        return environ["BATCH_JOB_ID"]
    if environ.get("MA_VJ_NAME"):
        return environ["MA_VJ_NAME"].replace("ma-job", "modelarts-job", 1)
    return hostname


def _rank_table(environ: Mapping[str, str]) -> Optional[str]:
    """The file of the rank table, that of all clusters first (volcano-global).

    The platforms name a directory (`/user/config`); HCCL and users name a `.json` file.
    """
    names = ("RANK_TABLE_FILE_V_1_0", "GLOBAL_RANK_TABLE_FILE", "RANK_TABLE_FILE")
    value = next(filter(None, (environ.get(name) for name in names)), None)
    return value if value is None or value.endswith(".json") else os.path.join(value, TABLE_NAME)
