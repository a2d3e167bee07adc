"""A start of the job as ModelArts shows it to each node: directories, variables, rank table. Pure.

Names and values are from the platform's documentation (develop-modelarts-0104 and -1416); where one
machine cannot have the real thing, a docstring says what replaces it.

Inputs and outputs of the job form: `--input data_url=obs://bucket/data/` is an input named by its
hyper-parameter: before the boot command the platform downloads it into `inputs/data_url_0`, and appends
`--data_url=<that directory>`. The path of `data_url@env=` is in the environment variable `data_url` instead,
the other choice of "obtained from" in the form. Outputs are in `outputs/<name>_0`; they are uploaded every
30 s, and after the boot command.
"""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ma_boot.errors import UsageError, listed
from ma_boot.platform.modelarts.job import JOB_TOKEN
from ma_boot.platform.rank_table import WRITERS, fake
from ma_boot.platform.recognition.modelarts import TABLE_NAME
from ma_boot.wording import counted
from path_mapping.mapping.routes import ObsUrl, Route

_OTHER_JOBS = re.compile(
    r"(MA|VC|VK|BATCH|DLS|MABOOT|MS|MASTER|OMPI|PMIX|SLURM|PET|TORCHELASTIC|MINDX|CM)_"
    r"|((LOCAL_|GROUP_)?RANK|(LOCAL_|GROUP_)?WORLD_SIZE|RANK_AFTER_ACC|XDL_IP|POD_UID|POD_IP|HOST_IP"
    r"|(GLOBAL_)?RANK_TABLE_FILE|RANK_ID|RANK_SIZE|DEVICE_ID|ASCEND_DEVICE_ID|JOB_ID|ROUTE_PLAN)$"
)

PERIOD_SECONDS = 30.0  # the default of CreateTrainingJob
_OPTION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(@env)?=(.*)", re.DOTALL)
SIMULATED = ("modelarts", "volcano", "mindcluster")  # platforms
CODE_DIRECTORY = "/home/ma-user/modelarts/user-job-dir"
# The directories of a node that exist when the boot command starts. In a container each of them is a mount:
# a mount over all of `modelarts` would hide the image's own directory, and its mode.
DIRECTORIES = (
    CODE_DIRECTORY,
    "/home/ma-user/modelarts/inputs",
    "/home/ma-user/modelarts/outputs",
    "/home/ma-user/modelarts/log",
    "/user/config",
    "/cache",
)
PRODUCT = "910b"  # of the simulated nodes: HCCL takes any number of its cards per server


@dataclass(frozen=True)
class StartCounts:
    """Counts of a node: `MA_SCHEDULE_CNT` and `MA_PROC_START_CNT`.

    The first counts schedules to a machine, the second starts of the boot command in the current container.
    """

    scheduled: int = 1
    started: int = 1


@dataclass(frozen=True)
class SimulatedJob:
    """A job on `nodes` machines with `devices_per_node` devices each, in the sandbox directory `root`.

    `platform` is what it runs on, `machine` the host name of this machine, and `token` what the nodes know
    each other by. At one of its starts `counts` has an entry for each node; with `exact_paths` the nodes see
    the platform's own paths.
    """

    uuid: str
    root: str
    nodes: int
    devices_per_node: int
    platform: str = "modelarts"
    machine: str = ""
    token: str = field(default="", repr=False)
    counts: tuple[StartCounts, ...] = ()
    exact_paths: bool = False

    @property
    def shape(self) -> str:
        """`2 nodes x 4 devices`."""
        return f"{counted(self.nodes, 'node')} x {counted(self.devices_per_node, 'device')}"

    @property
    def name(self) -> str:
        """The name of the job in `MA_VJ_NAME`."""
        return f"ma-job-{self.uuid}"

    @property
    def log_name(self) -> str:
        """The name of the job in the names of log files.

        A pod of Volcano has the job's name from the names of its hosts, for which addresses stand here.
        """
        return {"volcano": self.machine, "mindcluster": self.uuid}.get(
            self.platform, f"modelarts-job-{self.uuid}"
        )

    def start_counts(self, node: int) -> StartCounts:
        """Returns the counts of a node's starts."""
        return self.counts[node] if self.counts else StartCounts()

    def sandbox_root(self, node: int) -> str:
        """The directory of this machine that stands for the root directory of a node."""
        return os.path.join(self.root, f"node-{node}")

    def node_root(self, node: int) -> str:
        """The path by which the node itself knows its root directory."""
        return "/" if self.exact_paths else self.sandbox_root(node)

    def home(self, node: int) -> str:
        """`/home/ma-user`, where the boot command starts."""
        return os.path.join(self.node_root(node), "home", "ma-user")

    def job_dir(self, node: int) -> str:
        """`MA_JOB_DIR`, the parent of the code directory."""
        return os.path.join(self.home(node), "modelarts", "user-job-dir")

    def log_dir(self, node: int) -> str:
        """`MA_LOG_DIR`."""
        return os.path.join(self.home(node), "modelarts", "log")

    def table_dir(self, node: int) -> str:
        """`/user/config`, the directory of the rank table."""
        return os.path.join(self.node_root(node), "user", "config")

    @property
    def table_name(self) -> str:
        """The file of the rank table in its directory."""
        return "hccl.json" if self.platform == "mindcluster" else TABLE_NAME

    def table_file(self, node: int) -> Path:
        """Path of the rank table."""
        return Path(self.table_dir(node), self.table_name)

    def uid(self, node: int) -> str:
        """Kubernetes' id of a node's pod; a rescheduled node is another pod."""
        return f"6f1c0a2e-0000-4000-{8000 + self.start_counts(node).scheduled}-{node:012d}"

    def node_log(self, node: int) -> str:
        """The file with everything that a node prints."""
        return os.path.join(self.root, "log", f"{self.log_name}-worker-{node}.log")

    @property
    def events_file(self) -> str:
        """The events of the rehearsal itself; each node has its own file."""
        return os.path.join(self.root, "log", f"{self.log_name}-events.jsonl")

    def address(self, node: int) -> str:
        """A node's address: in 127.0.0.0/8, which Linux routes to itself without DNS.

        As on the platform, it changes whenever the node is scheduled.
        """
        high, low = divmod(node + 1, 250)
        return f"127.{self.start_counts(node).scheduled - 1}.{high}.{low}"

    def host(self, node: int) -> str:
        """The node in `VC_WORKER_HOSTS`: its address; the platform's own names are only in its DNS."""
        return self.address(node)


def first_start(nodes: int) -> tuple[StartCounts, ...]:
    """Every node starts for the first time."""
    return (StartCounts(),) * nodes


def restarted(counts: tuple[StartCounts, ...]) -> tuple[StartCounts, ...]:
    """The boot command runs again in the same containers."""
    return tuple(StartCounts(count.scheduled, count.started + 1) for count in counts)


def rescheduled(counts: tuple[StartCounts, ...], node: int | None) -> tuple[StartCounts, ...]:
    """One node gets a new container on another machine, the others restart; with None, all get new ones."""
    return tuple(
        StartCounts(count.scheduled + 1) if node in (None, number) else again
        for number, (count, again) in enumerate(zip(counts, restarted(counts)))
    )


def node_environment(
    job: SimulatedJob, node: int, code_name: str, outside: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a node's container; `outside` is this machine's environment, whose variables of other
    jobs are left out.

    As on the platform, the name of a pod begins with `ma-job-` in the table and with `modelarts-job-` in
    `MA_CURRENT_INSTANCE_NAME`.
    """
    environ = {name: value for name, value in outside.items() if not _OTHER_JOBS.match(name)}
    if job.token and job.nodes > 1:
        environ[JOB_TOKEN] = job.token
    if job.platform != "modelarts":
        return {**environ, "HOME": job.home(node), **_of_another_platform(job, node)}
    counts = job.start_counts(node)
    environ.update(
        HOME=job.home(node),
        MA_HOME=job.home(node),
        MA_JOB_DIR=job.job_dir(node),
        MA_MOUNT_PATH=os.path.join(job.home(node), "modelarts"),
        MA_LOG_DIR=job.log_dir(node),
        MA_SCRIPT_INTERPRETER="",
        WORKSPACE=os.path.join(job.job_dir(node), code_name),
        MA_VJ_NAME=job.name,
        MA_TASK_NAME="worker",
        MA_NUM_HOSTS=str(job.nodes),
        MA_NUM_GPUS=str(job.devices_per_node),
        MA_CURRENT_IP=job.address(node),
        MA_CURRENT_HOST_IP=job.address(node),
        MA_CURRENT_INSTANCE_NAME=f"{job.log_name}-worker-{node}",
        MA_SCHEDULE_CNT=str(counts.scheduled),
        MA_PROC_START_CNT=str(counts.started),
        VC_TASK_INDEX=str(node),
        VC_WORKER_NUM=str(job.nodes),
        VC_WORKER_HOSTS=",".join(job.host(n) for n in range(job.nodes)),
        RANK_TABLE_FILE=job.table_dir(node),
    )
    return environ


def _of_another_platform(job: SimulatedJob, node: int) -> dict[str, str]:
    """The variables of a pod of Volcano (plugins env and svc) or of an AscendJob with PyTorch (MindCluster).

    Both have the variables that their YAML maps from the pod; `RANK_TABLE_FILE` is from the user's YAML.
    """
    if job.platform == "volcano":
        return {
            "VC_TASK_INDEX": str(node),
            "VK_TASK_INDEX": str(node),
            "VC_WORKER_NUM": str(job.nodes),
            "VC_WORKER_HOSTS": ",".join(job.host(n) for n in range(job.nodes)),
            "HOST_IP": job.address(node),
            "RANK_TABLE_FILE": job.table_dir(node),
        }
    each = job.devices_per_node
    return {
        "MINDX_TASK_ID": job.uuid,
        "POD_UID": job.uid(node),
        "XDL_IP": job.address(node),
        "LOCAL_WORLD_SIZE": str(each),
        "WORLD_SIZE": str(each * job.nodes),
        "LOCAL_RANK": ",".join(map(str, range(each))),
        "RANK": str(node),
        "MASTER_ADDR": job.host(0),
        "MASTER_PORT": "2222",
        "RANK_TABLE_FILE": os.path.join(job.table_dir(node), job.table_name),
    }


def rank_table(job: SimulatedJob) -> dict[str, Any]:
    """The completed rank table: with servers on the other platforms, on ModelArts in template two.

    The controller replaces the entry of a rescheduled node: it swaps the old one with the last entry, drops
    it, and appends the new one, in which the server and the devices have other addresses.
    """
    if job.platform != "modelarts":
        return _table_with_servers(job)
    table = fake(job.nodes, job.devices_per_node, (job.name + "-worker-{}").format, job.address)
    pods = table["group_list"][0]["instance_list"]
    for node in range(job.nodes):
        scheduled = job.start_counts(node).scheduled
        if scheduled == 1:
            continue
        place = next(i for i, pod in enumerate(pods) if pod["server_id"] == job.address(node))
        pods[place], pods[-1] = pods[-1], pods[place]
        for device in pods[-1]["devices"]:
            device["device_ip"] = f"{191 + scheduled}.{device['device_ip'].partition('.')[2]}"
    return table


def _table_with_servers(job: SimulatedJob) -> dict[str, Any]:
    """The servers in the order of the pods; a rescheduled node has other addresses and keeps its ranks."""
    table = WRITERS[job.platform].document(job.nodes, job.devices_per_node)
    for node, server in enumerate(table["server_list"]):
        scheduled = job.start_counts(node).scheduled
        if job.platform == "mindcluster":
            address = job.address(node)
            server.update(server_id=job.uid(node), host_ip=address, container_ip=address)
        else:
            server["server_id"] = job.address(node)
        for device in server["device"]:
            device["device_ip"] = f"{191 + scheduled}.{device['device_ip'].partition('.')[2]}"
    return table


@dataclass(frozen=True)
class FormChannel:
    """An input or output of the job form; the training gets its path in a variable, or as an argument."""

    name: str
    url: ObsUrl
    is_input: bool
    by_variable: bool

    def directory(self, job: SimulatedJob, node: int) -> str:
        """Its local directory on a node."""
        kind = "inputs" if self.is_input else "outputs"
        return os.path.join(job.home(node), "modelarts", kind, f"{self.name}_0")

    def route(self, job: SimulatedJob, node: int) -> Route:
        """The route of its files on a node."""
        return Route(
            self.directory(job, node),
            self.url,
            interval=None if self.is_input else PERIOD_SECONDS,
            required=self.is_input,
        )


def parse_channels(inputs: Sequence[str], outputs: Sequence[str]) -> tuple[FormChannel, ...]:
    """Parses the values of `--input` and `--output`; raises `UsageError` with every mistake in them."""
    channels: list[FormChannel] = []
    problems: list[str] = []
    for option, texts in (("--input", inputs), ("--output", outputs)):
        for text in texts:
            match = _OPTION.fullmatch(text)
            try:
                if match is None:
                    raise ValueError("expected NAME=obs://bucket/path, or NAME@env=obs://bucket/path")
                name, by_variable, url = match.groups()
                channels.append(FormChannel(name, ObsUrl.typed(url), option == "--input", bool(by_variable)))
            except ValueError as error:
                problems.append(f"{option} {text}: {error}")
    names = [channel.name for channel in channels]
    problems += [f"{name}: expected once" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise UsageError(listed("inputs and outputs of the job form:", problems))
    return tuple(channels)


def channel_arguments(channels: Sequence[FormChannel], job: SimulatedJob, node: int) -> tuple[str, ...]:
    """The arguments that the platform appends to the boot command."""
    return tuple(
        f"--{channel.name}={channel.directory(job, node)}" for channel in channels if not channel.by_variable
    )


def channel_variables(channels: Sequence[FormChannel], job: SimulatedJob, node: int) -> dict[str, str]:
    """The environment variables that the platform sets, MA_INPUTS and MA_OUTPUTS among them."""
    if not channels:
        return {}
    variables = {channel.name: channel.directory(job, node) for channel in channels if channel.by_variable}
    for kind in ("inputs", "outputs"):
        described = [
            {
                "name": channel.name,
                "local_dir": channel.directory(job, node),
                "remote": {"obs": {"obs_url": str(channel.url)}},
            }
            for channel in channels
            if channel.is_input == (kind == "inputs")
        ]
        variables[f"MA_{kind.upper()}"] = json.dumps({kind: described})
    return variables
