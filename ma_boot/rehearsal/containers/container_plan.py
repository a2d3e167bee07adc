"""What the engine is asked for: a network, a container for each node, one for OBS. Pure.

The nodes have the platform's own paths and names (facts of develop-modelarts-0104 and -1416): the image's
user 1000, `/home/ma-user/modelarts`, `/cache` and `/user/config` as mounts, worker names that resolve.
"""

from __future__ import annotations

import ipaddress
import os.path
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Dict, Mapping, Optional, Sequence, Tuple

from ma_boot.errors import ConfigError
from ma_boot.image import LABEL
from ma_boot.modelarts import PLATFORM_UID
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob, node_environment

RUN_LABEL = f"{LABEL}.rehearsal"
MOUNTED = ("/home/ma-user/modelarts", "/cache", "/user/config")
CODE_DIRECTORY = "/home/ma-user/modelarts/user-job-dir"
TOOLKIT_PYTHON = "/opt/ma_boot/bin/python"
_OBS_PORT = 9000
_OBS_DIRECTORY = "/obs"
_OBS_VARIABLES = (
    "OBS_ENDPOINT",
    "S3_ENDPOINT",
    "OBS_ACCESS_KEY_ID",
    "OBS_SECRET_ACCESS_KEY",
    "OBS_SECURITY_TOKEN",
)
_OBS_HOST, _FIRST_NODE = 2, 3  # in the subnet; its first address is the engine's


@dataclass(frozen=True)
class ContainerOptions:
    """What the user asked of the containers; sizes in bytes, None for no limit."""

    image: str
    offline: bool
    memory: Optional[int]
    shm_size: int
    keep: bool


@dataclass(frozen=True)
class NetworkPlan:
    """A network of the rehearsal's own; from an `internal` one nothing outside can be reached."""

    name: str
    internal: bool
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Mount:
    """A directory of this machine, `source`, in a container."""

    source: str
    target: str


@dataclass(frozen=True)
class ContainerPlan:
    """One container; `argv` replaces the image's entry point. Sizes in bytes, None for no limit."""

    name: str
    image: str
    argv: Tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    user: str
    hostname: str
    network: str
    address: str
    aliases: Tuple[str, ...]
    mounts: Tuple[Mount, ...]
    labels: Mapping[str, str]
    memory: Optional[int] = None
    shm_size: Optional[int] = None


@dataclass(frozen=True)
class JobInContainers(SimulatedJob):
    """The job as its own containers see it: each has a root directory, a name, and an address in `subnet`."""

    subnet: str = ""

    def node_root(self, node: int) -> str:
        """The container's own."""
        return "/"

    def address(self, node: int) -> str:
        """The container's address."""
        return _nth_address(self.subnet, _FIRST_NODE + node)

    def host(self, node: int) -> str:
        """The name that the platform gives a worker, which resolves on the rehearsal's network."""
        return f"{self.log_name}-worker-{node}.{self.log_name}"


@dataclass(frozen=True)
class ServedObs:
    """The rehearsal's own OBS: `user` (uid:gid) serves `directory` to whom has these keys, of one run."""

    directory: str
    user: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)


def run_labels(job: SimulatedJob) -> Dict[str, str]:
    """What all of a rehearsal's containers and networks bear; by it they are found and removed."""
    return {LABEL: "rehearsal", RUN_LABEL: job.uuid}


def plan_network(job: SimulatedJob, options: ContainerOptions) -> NetworkPlan:
    """The network, which no other container is on."""
    return NetworkPlan(_short_name(job), options.offline, run_labels(job))


def seen_inside(job: SimulatedJob, subnet: str) -> JobInContainers:
    """The job on this network; raises `ConfigError` for one that has too few addresses."""
    size = ipaddress.ip_network(subnet).num_addresses
    if _FIRST_NODE + job.nodes >= size:
        raise ConfigError(
            f"--nodes {job.nodes}: the engine's network {subnet} has only {size} addresses; "
            "give it larger ones (default-address-pools in its daemon.json)"
        )
    return JobInContainers(job.uuid, job.root, job.nodes, job.devices_per_node, subnet)


def plan_node(
    job: SimulatedJob,
    inside: JobInContainers,
    node: int,
    options: ContainerOptions,
    boot_options: Tuple[str, ...],
    code: Optional[PurePath],
    obs: Mapping[str, str],
) -> ContainerPlan:
    """A node of the job: `boot_options` are those of `ma_boot run`, `obs` the variables of its OBS; of the
    code directory only the name matters."""
    return ContainerPlan(
        name=f"{_short_name(job)}-node-{node}",
        image=options.image,
        argv=("ma_boot", "run", *boot_options),
        environ={**node_environment(inside, node, code.name if code else "code", {}), **obs},
        user=str(PLATFORM_UID),  # in the group that the image gives it
        hostname=f"{job.log_name}-worker-{node}",
        network=_short_name(job),
        address=inside.address(node),
        aliases=(inside.host(node),),
        mounts=tuple(Mount(os.path.join(job.node_root(node), path.lstrip("/")), path) for path in MOUNTED),
        labels=run_labels(job),
        memory=options.memory,
        shm_size=options.shm_size,
    )


def plan_obs(job: SimulatedJob, inside: JobInContainers, image: str, obs: ServedObs) -> ContainerPlan:
    """The container that serves the directory as OBS: of the same image, whose toolkit has the server.

    Its environment is what a job needs to find it.
    """
    address = _nth_address(inside.subnet, _OBS_HOST)
    return ContainerPlan(
        name=f"{_short_name(job)}-obs",
        image=image,
        argv=(TOOLKIT_PYTHON, "-I", "-m", "ma_boot.rehearsal.obs_server", _OBS_DIRECTORY, str(_OBS_PORT)),
        environ={
            "OBS_ENDPOINT": f"http://{address}:{_OBS_PORT}",
            "OBS_ACCESS_KEY_ID": obs.access_key,
            "OBS_SECRET_ACCESS_KEY": obs.secret_key,
        },
        user=obs.user,
        hostname="obs",
        network=_short_name(job),
        address=address,
        aliases=("obs",),
        mounts=(Mount(obs.directory, _OBS_DIRECTORY),),
        labels=run_labels(job),
    )


def outer_obs(environ: Mapping[str, str]) -> Dict[str, str]:
    """The variables of a real OBS, out of this machine's environment."""
    return {name: environ[name] for name in _OBS_VARIABLES if environ.get(name)}


def look_and_remove(nodes: Sequence[ContainerPlan], obs: Optional[ContainerPlan], job: SimulatedJob) -> str:
    """How to look at containers that were kept, and how to remove them."""
    network, first = _short_name(job), nodes[0].name
    names = [plan.name for plan in (*nodes, *([obs] if obs else []))]
    return "\n".join(
        [
            f"kept: {', '.join(names)}",
            f"  what changed in it: docker diff {first}",
            f"  get a file of it:   docker cp {first}:/home/ma-user/FILE .",
            f"  boot it again:      docker start --attach {first}",
            f"  a shell in a copy:  docker commit {first} ma_boot-look"
            f" && docker run --rm -it --network {network} --volumes-from {first} --entrypoint bash"
            " ma_boot-look; docker rmi ma_boot-look",
            f"  remove all:         docker rm --force --volumes {' '.join(names)}"
            f" && docker network rm {network}",
        ]
    )


def _short_name(job: SimulatedJob) -> str:
    return f"ma_boot-{job.uuid[:8]}"


def _nth_address(subnet: str, number: int) -> str:
    return str(ipaddress.ip_network(subnet)[number])
