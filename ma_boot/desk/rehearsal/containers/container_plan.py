"""Plans the network of a rehearsal and the containers of its nodes and of OBS. Pure.

The nodes have the platform's own paths and names (develop-modelarts-0104 and -1416): the user 1000,
`/home/ma-user/modelarts`, `/cache` and `/user/config` as mounts, names of workers that resolve.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from ma_boot.desk.image.rules.facts import LABEL
from ma_boot.desk.rehearsal.platform.simulated_job import DIRECTORIES, SimulatedJob, node_environment
from ma_boot.errors import ConfigError
from ma_boot.node.rehearsal_options import ContainerOptions
from ma_boot.platform.modelarts.job import PLATFORM_UID

RUN_LABEL = f"{LABEL}.rehearsal"
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
_OBS_HOST, _FIRST_NODE = 2, 3  # in the subnet, where 1 is the engine


@dataclass(frozen=True)
class ContainerPlan:
    """A container; `argv` replaces the entry point of the image, `mounts` maps paths inside to directories.

    Sizes are in bytes, None for no limit.
    """

    name: str
    image: str
    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    user: str
    hostname: str
    network: str
    address: str
    aliases: tuple[str, ...]
    mounts: Mapping[str, str]
    labels: Mapping[str, str]
    memory: int | None = None
    shm_size: int | None = None


@dataclass(frozen=True)
class JobInContainers(SimulatedJob):
    """The job as its containers see it: each has the platform's paths, a name, and an address in `subnet`."""

    subnet: str = ""

    def address(self, node: int) -> str:
        """The address of the container."""
        return _nth_address(self.subnet, _FIRST_NODE + node)

    def host(self, node: int) -> str:
        """The name that the platform gives a worker; it resolves on the network of the rehearsal."""
        return f"{self.log_name}-worker-{node}.{self.log_name}"


def run_labels(job: SimulatedJob) -> dict[str, str]:
    """The labels of all containers and networks of a rehearsal, by which they are removed."""
    return {LABEL: "rehearsal", RUN_LABEL: job.uuid}


def job_on_network(job: SimulatedJob, subnet: str) -> JobInContainers:
    """The job on a network; raises `ConfigError` if the subnet has too few addresses."""
    size = ipaddress.ip_network(subnet).num_addresses
    if _FIRST_NODE + job.nodes >= size:
        raise ConfigError(
            f"--nodes {job.nodes}: the network {subnet} of the engine has only {size} addresses; "
            "configure larger networks (default-address-pools in its daemon.json)"
        )
    return JobInContainers(
        *(job.uuid, job.root, job.nodes, job.devices_per_node, job.platform, job.machine, job.token),
        exact_paths=True,
        subnet=subnet,
    )


def plan_node(
    job: JobInContainers,
    node: int,
    options: ContainerOptions,
    boot_options: tuple[str, ...],
    code_name: str,
    more: Mapping[str, str],
) -> ContainerPlan:
    """The container of a node, in which `ma_boot run` gets `boot_options`; `more` are the variables of OBS
    and of the job form."""
    root = job.sandbox_root(node)
    variables = node_environment(job, node, code_name, {})
    del variables["HOME"]  # the image's: from its ENV, else from its /etc/passwd
    return ContainerPlan(
        name=f"{short_name(job)}-node-{node}",
        image=options.image,
        argv=_boot_command(options, ("ma_boot", "run", *boot_options)),
        environ={**variables, **more},
        user=str(PLATFORM_UID),  # the image determines the group
        hostname=f"{job.log_name}-worker-{node}",
        network=short_name(job),
        address=job.address(node),
        aliases=(job.host(node),),
        mounts={path: root + path for path in DIRECTORIES},
        labels=run_labels(job),
        memory=options.memory,
        shm_size=options.shm_size,
    )


def _boot_command(options: ContainerOptions, words: tuple[str, ...]) -> tuple[str, ...]:
    """The command as the container starts it: by a shell if one was chosen or something stands before it."""
    if options.boot_shell == "none" and not options.boot_prefix:
        return words
    shell = "sh" if options.boot_shell == "none" else options.boot_shell
    return (shell, "-c", f"{options.boot_prefix or ''} {shlex.join(words)}".strip())


def plan_obs(
    job: JobInContainers, image: str, directory: str, user: str, access_key: str, secret_key: str
) -> ContainerPlan:
    """The container that serves a directory as OBS, as `user` (`uid:gid`); the image has the server.

    Its environment is also what a job needs to reach it.
    """
    address = _nth_address(job.subnet, _OBS_HOST)
    return ContainerPlan(
        name=f"{short_name(job)}-obs",
        image=image,
        argv=(
            TOOLKIT_PYTHON,
            "-I",
            "-m",
            "ma_boot.desk.rehearsal.obs_server",
            _OBS_DIRECTORY,
            str(_OBS_PORT),
        ),
        environ={
            "OBS_ENDPOINT": f"http://{address}:{_OBS_PORT}",
            "OBS_ACCESS_KEY_ID": access_key,
            "OBS_SECRET_ACCESS_KEY": secret_key,
        },
        user=user,
        hostname="obs",
        network=short_name(job),
        address=address,
        aliases=("obs",),
        mounts={_OBS_DIRECTORY: directory},
        labels=run_labels(job),
    )


def own_obs(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a real OBS, from the environment of this machine."""
    return {name: environ[name] for name in _OBS_VARIABLES if environ.get(name)}


def short_name(job: SimulatedJob) -> str:
    """The name of the network, with which the names of the containers begin."""
    return f"ma_boot-{job.uuid[:8]}"


def _nth_address(subnet: str, number: int) -> str:
    return str(ipaddress.ip_network(subnet)[number])
