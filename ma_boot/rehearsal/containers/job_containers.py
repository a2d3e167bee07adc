"""Creates the containers of a job: one for each node, and one that serves OBS."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Mapping, Optional, Tuple

from ma_boot.errors import CannotCreate
from ma_boot.rehearsal.containers.container_plan import (
    ContainerOptions,
    ContainerPlan,
    JobInContainers,
    job_on_network,
    kept_note,
    own_obs,
    plan_node,
    plan_obs,
    run_labels,
    short_name,
)
from ma_boot.rehearsal.containers.engine_calls import create_container, create_network, start_serving
from ma_boot.rehearsal.platform import SimulatedJob

if TYPE_CHECKING:
    from docker import DockerClient


@dataclass(frozen=True)
class JobContainers:
    """The created containers of a job; `job` is as they see it, `obs` is None without `--obs-root`."""

    job: JobInContainers
    nodes: Tuple[ContainerPlan, ...]
    obs: Optional[ContainerPlan]

    def attach_command(self, node: int) -> Tuple[str, ...]:
        """The command that runs a node's container, and ends with it."""
        return (sys.executable, "-m", "ma_boot.rehearsal.containers.attach", self.nodes[node].name)

    def kept_note(self) -> str:
        """How to inspect and remove the containers if they are kept."""
        return kept_note(self.nodes, self.obs, self.job)


def create_containers(
    client: DockerClient,
    job: SimulatedJob,
    options: ContainerOptions,
    boot_options: Tuple[str, ...],
    form_variables: Mapping[str, str],
    code_name: str,
    obs_root: Optional[Path],
    environ: Mapping[str, str],
) -> JobContainers:
    """Creates everything on the engine, and starts to serve OBS.

    `boot_options` are those of `ma_boot run` on every node, `form_variables` those of the job form.
    Without `obs_root`, the nodes use the OBS that `environ` configures.

    Raises:
        BootError: something cannot be created, or OBS does not start.
    """
    subnet = create_network(client, short_name(job), run_labels(job))
    inside = job_on_network(job, subnet)
    obs = None if obs_root is None else _start_obs(client, obs_root, inside, options.image)
    variables = {**(obs.environ if obs else own_obs(environ)), **form_variables}
    nodes = tuple(
        plan_node(inside, node, options, boot_options, code_name, variables) for node in range(job.nodes)
    )
    for planned in nodes:
        create_container(client, planned)
    return JobContainers(inside, nodes, obs)


def _start_obs(client: DockerClient, root: Path, inside: JobInContainers, image: str) -> ContainerPlan:
    """Starts the container that serves a directory, as the owner of it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        owner = root.stat()
    except OSError as error:
        raise CannotCreate(f"--obs-root {root}: {error.strerror}") from error
    keys = secrets.token_hex(10), secrets.token_hex(20)
    planned = plan_obs(inside, image, str(root), f"{owner.st_uid}:{owner.st_gid}", *keys)
    create_container(client, planned)
    start_serving(client, planned)
    return planned
