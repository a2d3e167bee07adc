"""The rehearsal of a whole job in containers of its own image: the same boot, one container a node."""

from __future__ import annotations

import dataclasses
import os
import secrets
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Tuple

from ma_boot.errors import CannotCreate, ConfigError
from ma_boot.image import engine
from ma_boot.launch import WorkerSpec
from ma_boot.modelarts import PLATFORM_GID, PLATFORM_UID
from ma_boot.node import BootRequest, World, as_options
from ma_boot.rehearsal.containers import container_plan, engine_calls
from ma_boot.rehearsal.containers.container_plan import ContainerOptions, ContainerPlan
from ma_boot.rehearsal.containers.guard import removing
from ma_boot.rehearsal.platform.code_directory import code_directory
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob, rank_table
from ma_boot.rehearsal.rehearse import Rehearsal, make_sandbox, new_job, node_log, run_nodes

if TYPE_CHECKING:
    from docker import DockerClient


def rehearse_in_containers(rehearsal: Rehearsal, options: ContainerOptions, world: World) -> int:
    """Runs the job on containers and returns its exit code: that of the node that failed first.

    Nothing on the engine is left, whatever ends the rehearsal; `keep` leaves everything of one that came to
    its own end. Raises `BootError` for what is wrong before a node starts.
    """
    started = time.monotonic()
    os.umask(0o022)  # what we write for the nodes, the rank table above all, is read by another user
    job = new_job(rehearsal, world)
    with engine(world.environ) as client:
        engine_calls.check_runs_here(client, options.image)
        code, command = _code_of(rehearsal, world.cwd)
        request = _request_inside(rehearsal.request, code, command, world.cwd)
        make_sandbox(rehearsal, job, code, world)
        _give_to_the_user(Path(job.root))
        with removing(job.uuid, world.environ) as remover:
            inside = container_plan.seen_inside(
                job, engine_calls.create_network(client, container_plan.plan_network(job, options))
            )
            obs = _start_obs(client, rehearsal.request.transfers.obs_root, job, inside, options, world)
            variables = obs.environ if obs else container_plan.outer_obs(world.environ)
            nodes = tuple(
                container_plan.plan_node(job, inside, node, options, as_options(request), code, variables)
                for node in range(job.nodes)
            )
            for planned in nodes:
                engine_calls.create_container(client, planned)
            specs = [_attached(node, planned, job, world) for node, planned in enumerate(nodes)]
            ended = run_nodes(rehearsal, job, specs, rank_table(inside), world, started)
            if options.keep:
                world.journal.say(container_plan.look_and_remove(nodes, obs, job))
                remover.keep = True
    return ended


def _start_obs(
    client: DockerClient,
    obs_root: Optional[str],
    job: SimulatedJob,
    inside: container_plan.JobInContainers,
    options: ContainerOptions,
    world: World,
) -> Optional[ContainerPlan]:
    """The container that serves `--obs-root` from now on, as a user who may write there; None without it."""
    if obs_root is None:
        return None
    directory = Path(world.cwd, obs_root).resolve()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        owner = directory.stat()
    except OSError as error:
        raise CannotCreate(f"--obs-root {directory}: {error.strerror}") from error
    keys = secrets.token_hex(10), secrets.token_hex(20)
    served = container_plan.ServedObs(str(directory), f"{owner.st_uid}:{owner.st_gid}", *keys)
    planned = container_plan.plan_obs(job, inside, options.image, served)
    engine_calls.create_container(client, planned)
    engine_calls.start_serving(client, planned)
    return planned


def _attached(node: int, planned: ContainerPlan, job: SimulatedJob, world: World) -> WorkerSpec:
    return WorkerSpec(
        label=f"node {node}",
        argv=(sys.executable, "-m", "ma_boot.rehearsal.containers.attach", planned.name),
        cwd=world.cwd,
        environ=world.environ,
        log_file=node_log(job, node),
    )


def _give_to_the_user(root: Path) -> None:
    """Makes the sandbox the platform's user's; who is not root here lets everybody write instead."""
    is_root = os.geteuid() == 0
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = os.path.join(directory, name)
            if is_root:
                os.chown(path, PLATFORM_UID, PLATFORM_GID)
            else:
                os.chmod(path, 0o777 if name in directories else 0o666)


def _code_of(rehearsal: Rehearsal, cwd: str) -> Tuple[Optional[Path], Tuple[str, ...]]:
    """The code directory and the command, as for processes; but a script may also be in the image."""
    first = rehearsal.request.command[0]
    if os.path.isabs(first) and not os.path.exists(first):
        code, _ = code_directory(("in the image",), rehearsal.code_dir, cwd)
        return code, rehearsal.request.command
    return code_directory(rehearsal.request.command, rehearsal.code_dir, cwd)


def _request_inside(
    request: BootRequest, code: Optional[Path], command: Tuple[str, ...], cwd: str
) -> BootRequest:
    """The request as every node gets it: files of the code at their place there, OBS by its address.

    Raises `ConfigError` for a file that no node would find.
    """
    first, *rest = command
    if code is not None and first.endswith((".py", ".sh")) and not os.path.isabs(first):
        first = os.path.join(container_plan.CODE_DIRECTORY, code.name, first)

    def placed(option: str, name: str) -> str:
        path = Path(cwd, name).resolve()
        if code is not None and code in path.parents and path.exists():
            return os.path.join(container_plan.CODE_DIRECTORY, code.name, str(path.relative_to(code)))
        if os.path.isabs(name) or not path.exists():  # it names a file of the image
            return name
        raise ConfigError(
            f"{option} {name} is not in the job's code directory ({code or 'there is none'}), so no node "
            "would find it: move it there, or name a wider directory with --code-dir"
        )

    sources, mapping = request.environment.source, request.transfers.path_mapping
    return dataclasses.replace(
        request,
        command=(first, *rest),
        environment=dataclasses.replace(
            request.environment, source=tuple(placed("--source", file) for file in sources)
        ),
        transfers=dataclasses.replace(
            request.transfers,
            path_mapping=None if mapping is None else placed("--path-mapping", mapping),
            obs_root=None,
        ),
    )
