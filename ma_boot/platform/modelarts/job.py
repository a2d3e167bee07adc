"""The node's view of its job, from the platform's environment variables, as frozen values. Pure."""

from __future__ import annotations

import json
import os.path
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from ma_boot.errors import ConfigError, listed
from ma_boot.platform.rank_table import Identity
from ma_boot.platform.recognition.modelarts import with_todays_names
from ma_boot.platform.recognition.place import NodePlace, Surroundings
from ma_boot.platform.recognition.recognise import (
    RecognisedPlatform,
    find_node_variables,
    find_place,
    recognise,
)
from ma_boot.wording import Message

# ma-user and ma-group, by ModelArts' specifications for custom images.
PLATFORM_UID, PLATFORM_GID = 1000, 100
PLATFORM_HOME = "/home/ma-user"
_INCONSISTENT = Message(
    "the platform's variables are inconsistent (do not set ModelArts' in the job form or the image):"
)
# Variable with the secret by which the nodes of a job authenticate each other.
JOB_TOKEN = "MABOOT_JOB_TOKEN"


class JobEnvironment(NamedTuple):
    """One node's view of its job (ModelArts documentation, develop-modelarts-0104 and -1416).

    The other values follow from `place`, and from ModelArts' default values. `name` is the job's name in the
    names of log files; `host` is the platform's name for this container, else the host name; `node_rank`
    counts from 0. `node_count_given` is False if the count is Volcano's for a part of the job, or a default
    of 1, so that a rank table may have more nodes. `device_count` is the number of cards of this container,
    None if unknown. `start_count` is the number of starts of the boot command in this container
    (`MA_PROC_START_CNT`). `route_plan`: the user asked for dynamic routing.

    `group_rank` is the node's position in the order of the ranks, and `master_index` the master's among the
    hosts: `node_rank` and 0, unless the platform has reordered the nodes by their network (`RANK_AFTER_ACC`,
    `MA_MASTER_INDEX`). `replaced` lists old variables that were read in place of today's, `node_variables`
    those of the node that the training would take for the variables of a rank.
    """

    name: str
    host: str
    home: str
    mount_path: str
    job_dir: str
    log_dir: str
    node_rank: int
    node_count: int
    node_count_given: bool
    device_count: int | None
    group_rank: int
    master_index: int
    start_count: int
    route_plan: bool
    platform: RecognisedPlatform
    place: NodePlace
    replaced: tuple[str, ...] = ()
    node_variables: tuple[str, ...] = ()

    @property
    def simulated_root(self) -> str:
        """Directory that stands in for `/` in a rehearsal without containers; empty on the platform."""
        root, home, _ = self.home.rpartition(PLATFORM_HOME)
        return root if home and self.home.endswith(PLATFORM_HOME) else ""

    def with_job_paths(self, text: str) -> str:
        """Returns a text with the paths of a rehearsal as they are in the job."""
        root = self.simulated_root
        return text.replace(f"{root}/", "/") if root else text

    @property
    def failure_file(self) -> str:
        """Path of the failure report as JSON; the training may write the file itself."""
        return os.path.join(self.log_dir, f"{self.name}-node-{self.node_rank}-failure.json")

    @property
    def page_file(self) -> str:
        """Path of the HTML report of this node."""
        return os.path.join(self.log_dir, f"{self.name}-node-{self.node_rank}-report.html")

    @property
    def events_file(self) -> str:
        """Path of the events of this node, as JSON lines."""
        return os.path.join(self.log_dir, f"{self.name}-node-{self.node_rank}-events.jsonl")

    @property
    def identity(self) -> Identity:
        """Values by which this container is found in a rank table."""
        place, known = self.place, self.node_count_given or self.node_count > 1
        return Identity(
            name=place.pod,
            job=place.job,
            uid=place.uid,
            host=place.host,
            addresses=(*((place.host,) if place.host else ()), *place.addresses),
            device_count=self.device_count,
            number=self.node_rank,
            nodes=self.node_count if known else None,
        )

    @property
    def schedule_count(self) -> int:
        """Number of times that the platform has scheduled the job, with this one."""
        return 1 if self.place.schedules is None else self.place.schedules

    def event(self) -> dict[str, str | int]:
        """Returns the fields of the event at each start of the boot command."""
        return {
            "name": self.name,
            "nodes": self.node_count,
            "host": self.host,
            "start_count": self.start_count,
            "schedule_count": self.schedule_count,
        }

    def summary(self) -> str:
        """Returns the job in one line: `name, node 0 of 2`, with the number of earlier starts, if any."""
        text = f"{self.name}, node {self.node_rank} of {self.node_count}"
        if self.start_count > 1:
            text += f", start {self.start_count} in this container (MA_PROC_START_CNT)"
        if self.schedule_count > 1:
            text += f", scheduled {self.schedule_count} times ({self.place.sources['schedules']})"
        if self.group_rank != self.node_rank:
            text += f", reordered to node {self.group_rank} (RANK_AFTER_ACC)"
        if self.replaced:
            text += f"; old variables used: {', '.join(self.replaced)}"
        return text


def instance_name(environ: Mapping[str, str]) -> str:
    """Returns the platform's name for this container; empty outside of the platform."""
    return environ.get("BATCH_TASK_CURRENT_INSTANCE") or environ.get("MA_CURRENT_INSTANCE_NAME") or ""


def job_directory(environ: Mapping[str, str]) -> str:
    """Returns the directory in which the platform puts the job's code."""
    return environ.get("MA_JOB_DIR") or os.path.join(_mount_path(environ), "user-job-dir")


def _mount_path(environ: Mapping[str, str]) -> str:
    return environ.get("MA_MOUNT_PATH") or os.path.join(_home(environ), "modelarts")


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("MA_HOME") or environ.get("HOME") or PLATFORM_HOME


def read_job(
    environ: Mapping[str, str],
    hostname: str,
    platform: str | None = None,
    look: Callable[[Mapping[str, str], str], Surroundings] = Surroundings,
) -> JobEnvironment:
    """Reads the platform's variables; raises `ConfigError` with every problem.

    `platform` is the user's choice. `look` reads the surroundings of the node, for platforms other than
    ModelArts. Unset variables have ModelArts' default values, so that `ma_boot` also runs without a platform.
    """
    recognised = recognise(environ, platform)
    names, replaced = with_todays_names(environ)
    only_modelarts = recognised.modelarts_only
    around = Surroundings(environ, hostname) if only_modelarts else look(environ, hostname)
    problems: list[str] = []
    place = find_place(recognised, around, problems)
    nodes = place.nodes or 1
    node, group_rank, master_index = _indices(names, place, only_modelarts, problems)
    starts = _number(names, "MA_PROC_START_CNT", 1, problems)
    if problems:
        raise ConfigError(listed(_INCONSISTENT, list(dict.fromkeys(problems))))
    mount_path = _mount_path(names)
    return JobEnvironment(
        name=_job_name(environ, place.job, hostname),
        host=place.pod or hostname,
        home=_home(names),
        mount_path=mount_path,
        job_dir=job_directory(names),
        log_dir=names.get("MA_LOG_DIR") or os.path.join(mount_path, "log"),
        node_rank=node,
        node_count=nodes,
        node_count_given=place.nodes is not None and not place.is_part,
        device_count=place.devices or None,
        group_rank=group_rank,
        master_index=master_index,
        start_count=starts,
        route_plan=names.get("ROUTE_PLAN", "").lower() == "true",
        platform=recognised,
        place=place,
        replaced=replaced if recognised.name in ("modelarts", "bare") else (),
        node_variables=() if only_modelarts else find_node_variables(recognised, around),
    )


def _indices(
    names: Mapping[str, str], place: NodePlace, only_modelarts: bool, problems: list[str]
) -> tuple[int, int, int]:
    """Returns node rank, group rank and master index; each must be below the number of nodes."""
    nodes = place.nodes or 1
    # A single node needs no number.
    node = (place.node or 0) if nodes > 1 else 0
    if place.nodes == 0:
        problems.append(f"{place.sources['nodes']} is '0': expected an integer of at least 1")
    is_unset = place.node is None and not names.get("VC_TASK_INDEX", "").strip()
    if nodes > 1 and is_unset and (only_modelarts or not problems):
        problems.append("VC_TASK_INDEX is not set: expected an integer of at least 0")
    group_rank = _number(names, "RANK_AFTER_ACC", node, problems)
    master_index = _number(names, "MA_MASTER_INDEX", 0, problems)
    of_node, of_nodes = place.sources.get("node", ""), place.sources.get("nodes", "MA_NUM_HOSTS")
    indices = ((node, of_node), (group_rank, "RANK_AFTER_ACC"), (master_index, "MA_MASTER_INDEX"))
    problems += [
        f"{name} is {index}, {of_nodes} is {nodes}: expected 0 to {nodes - 1}"
        for index, name in indices
        if index >= nodes
    ]
    return node, group_rank, master_index


def _number(environ: Mapping[str, str], name: str, default: int, problems: list[str]) -> int:
    text = environ.get(name, "").strip()
    if text and not text.isdecimal():
        problems.append(f"{name} is {text!r}: expected an integer of at least 0")
        return default
    return int(text or default)


def _job_name(environ: Mapping[str, str], job: str | None, hostname: str) -> str:
    """Returns the job's name in log files: as the platform's launcher names it, else the host name."""
    # The names of ModelArts' first version, and of today's, which log files begin with `modelarts-job`.
    if environ.get("BATCH_JOB_ID"):
        return environ["BATCH_JOB_ID"]
    return job.replace("ma-job", "modelarts-job", 1) if job else hostname


VARIABLES = (("MA_INPUTS", "inputs"), ("MA_OUTPUTS", "outputs"))


class Channel(NamedTuple):
    """An input or output (`kind` is `inputs` or `outputs`) between `local_dir` and `url` in OBS.

    The platform downloads inputs before the boot command, and uploads outputs.
    """

    name: str
    kind: str
    local_dir: str
    url: str | None


class ChannelContent(NamedTuple):
    """Number and bytes of the files in a channel's directory; a lower limit unless `complete`."""

    channel: Channel
    files: int
    bytes: int
    complete: bool

    @property
    def empty(self) -> bool:
        """Tells if there is no file at all; directories do not count."""
        return self.complete and not self.files


def read_channels(environ: Mapping[str, str]) -> tuple[tuple[Channel, ...], tuple[str, ...]]:
    """Returns the channels, and the problems with the variables.

    An entry has the keys of current jobs (`name`, `local_dir`, `remote`) or those of the platform's first
    version (`parameter`, `data_source`); ModelArts' launcher (davincirun, `common.py`) reads both.
    """
    channels: list[Channel] = []
    problems: list[str] = []
    for variable, kind in VARIABLES:
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            entries = json.loads(text)[kind]
            channels += [_channel(kind, entry) for entry in entries]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problems.append(f"{variable} is not in the platform's format ({type(error).__name__}: {error})")
    return tuple(channels), tuple(problems)


def _channel(kind: str, entry: Mapping[str, Any]) -> Channel:
    if "parameter" in entry:
        parameter = entry["parameter"]
        return Channel(str(parameter["label"]), kind, str(parameter["value"]), _url(entry.get("data_source")))
    return Channel(str(entry["name"]), kind, str(entry["local_dir"]), _url(entry.get("remote")))


def _url(remote: Mapping[str, Any] | None) -> str | None:
    for source in ("obs", "datasets"):
        if remote and remote.get(source):
            return str(remote[source]["obs_url"])
    return None
