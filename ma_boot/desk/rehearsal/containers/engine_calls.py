"""Calls of the container engine: creates and starts the containers of a job, removes everything of a run."""

from __future__ import annotations

import contextlib
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ma_boot.desk.image.check import run_inside
from ma_boot.desk.image.container_engine import EngineRefused, engine, image_attributes
from ma_boot.desk.image.rules.boot import this_toolkit
from ma_boot.desk.image.rules.facts import ARCHITECTURES, docker_platform
from ma_boot.desk.rehearsal.containers.container_plan import (
    RUN_LABEL,
    ContainerPlan,
    JobInContainers,
    job_on_network,
    own_obs,
    plan_node,
    plan_obs,
    run_labels,
    short_name,
)
from ma_boot.desk.rehearsal.injection import StartedNode, StartedRank
from ma_boot.desk.rehearsal.platform.code_directory import mark_as_obs
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.errors import BootError, CannotCreate, CommandNotFound, ConfigError, NotExecutable
from ma_boot.node.rehearsal_options import ContainerOptions
from ma_boot.platform.modelarts.job import PLATFORM_UID
from ma_boot.processes.orphan_guard import GUARD, MARKER_VARIABLE
from ma_boot.report.console import print_lines

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

REMOVE, KEEP = b"r", b"k"  # what a rehearsal tells its guard
DONE = b"d"  # the answer: it has finished, and has reported what it could not remove
_READY_SECONDS = 120.0
_REMOVE_SECONDS = 60.0
_POLL_SECONDS = 0.1
_SUBNET_ATTEMPTS = 5
_VERSION_SECONDS = 120.0  # of an emulated processor, too
_LOOK = "`ma_boot image check` on it says what to do"


def check_runs_here(client: DockerClient, image: str) -> None:
    """Checks that the engine has the image and can run it, and that its boot command is this toolkit.

    Raises:
        InputMissing: the engine does not have the image.
        ConfigError: it is for another architecture, and there is no emulation; or its `ma_boot` is another
            program.
        CommandNotFound: the image has no ma_boot.
        NotExecutable: its ma_boot cannot be executed.
    """
    machine = _machine(image_attributes(client, image).get("Architecture"))
    here = _machine(client.info().get("Architecture"))
    run = run_inside(client, image, ["ma_boot", "--version"], _VERSION_SECONDS)
    if run.refusal or run.exit_code != 0:
        refusal = _refusal(image, run.refusal) if run.refusal else None
        if machine != here and (refusal is None or isinstance(refusal, NotExecutable)):
            raise ConfigError(
                f"{image} is for {machine}, but the engine runs on {here} and has no emulation of {machine} "
                "(binfmt_misc): rehearse with an image of "
                f"`ma_boot image build --platform {docker_platform(here)}`"
            )
        raise refusal or ConfigError(f"{image}: `ma_boot --version` failed: {run.output.strip()}\n{_LOOK}")
    if this_toolkit(run.output) is None:
        raise ConfigError(
            f"{image}: its ma_boot is another program; it answers {run.output[:200]!r}\n{_LOOK}"
        )


def _machine(architecture: Any) -> str:
    return ARCHITECTURES.get(str(architecture), str(architecture))


def _refusal(name: str, text: str) -> BootError:
    """Returns the reason why the engine did not start `ma_boot` in a container."""
    if "executable file not found" in text or "no such file or directory" in text:
        return CommandNotFound(
            f"{name}: the image has no ma_boot that starts, expected one of `ma_boot image build` ({text})\n"
            f"{_LOOK}"
        )
    if "permission denied" in text or "exec format error" in text:
        return NotExecutable(f"{name}: the image's ma_boot cannot be executed: {text}")
    return EngineRefused(f"{name} could not be started: {text}")


_KILL = 'kill -s "$1" -- "$2"'


@dataclass(frozen=True)
class JobContainers:
    """The created containers of a job, whose processes the engine signals; PIDs of ranks are those inside.

    `job` is as the containers see it, `obs` is None without `--obs-root`.
    """

    client: DockerClient
    job: JobInContainers
    nodes: tuple[ContainerPlan, ...]
    obs: ContainerPlan | None

    def attach_command(self, node: int) -> tuple[str, ...]:
        """The command that runs a node's container, and ends with it."""
        return (sys.executable, "-m", "ma_boot.desk.rehearsal.containers", "attach", self.nodes[node].name)

    def kept_note(self) -> str:
        """Returns a note on inspecting and removing kept containers."""
        network, first = short_name(self.job), self.nodes[0].name
        names = [plan.name for plan in (*self.nodes, *([self.obs] if self.obs else []))]
        return "\n".join(
            [
                f"kept: {', '.join(names)}",
                f"  its changed files:  docker diff {first}",
                f"  copy a file:        docker cp {first}:/home/ma-user/FILE .",
                f"  boot it again:      docker start --attach {first}",
                f"  a shell in a copy:  docker commit {first} ma_boot-look"
                f" && docker run --rm -it --network {network} --volumes-from {first} --entrypoint bash"
                " ma_boot-look; docker rmi ma_boot-look",
                f"  remove all:         docker rm --force --volumes {' '.join(names)}"
                f" && docker network rm {network}",
            ]
        )

    def exists(self, rank: StartedRank) -> bool:
        """Returns whether its container runs: a killed node writes no event of its end."""
        return str(self._container(rank.node).status) == "running"

    def signal_rank(self, rank: StartedRank, signum: int, with_children: bool = False) -> None:
        """Sends a signal to a rank, or to its process group; raises `OSError` if it has ended."""
        target = f"-{rank.pid}" if with_children else str(rank.pid)
        name = signal.Signals(signum).name[len("SIG") :]
        code, output = self._container(rank.node).exec_run(
            ["/bin/sh", "-c", _KILL, "sh", name, target], user=str(PLATFORM_UID)
        )
        if code != 0:
            raise OSError(output.decode(errors="replace").strip())

    def signal_node(self, node: StartedNode, signum: int) -> None:
        """Sends a signal to the first process of a container, if it has not ended."""
        from docker.errors import APIError

        with contextlib.suppress(APIError):
            self._container(node.node).kill(signum)

    def _container(self, node: int) -> Container:
        return self.client.containers.get(self.nodes[node].name)


def create_containers(
    client: DockerClient,
    job: SimulatedJob,
    options: ContainerOptions,
    boot_options: tuple[str, ...],
    form_variables: Mapping[str, str],
    code_name: str,
    obs_root: Path | None,
    environ: Mapping[str, str],
) -> JobContainers:
    """Creates everything on the engine, and starts to serve OBS.

    Every node runs `ma_boot run` with `boot_options`; `form_variables` are the variables of the job form.
    Without `obs_root`, the nodes use the OBS that `environ` configures.

    Raises:
        BootError: something cannot be created, or OBS does not start.
    """
    subnet = create_network(client, short_name(job), run_labels(job))
    inside = job_on_network(job, subnet)
    obs = None if obs_root is None else _start_obs(client, obs_root, inside, options.image)
    variables = {**(obs.environ if obs else own_obs(environ)), **form_variables}
    nodes = tuple(
        plan_node(inside, node, options, boot_options=boot_options, code_name=code_name, more=variables)
        for node in range(job.nodes)
    )
    for planned in nodes:
        create_container(client, planned)
    return JobContainers(client, inside, nodes, obs)


def _start_obs(client: DockerClient, root: Path, inside: JobInContainers, image: str) -> ContainerPlan:
    """Starts the container that serves a directory, as the owner of it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        mark_as_obs(root)
        owner = root.stat()
    except OSError as error:
        raise CannotCreate(f"--obs-root {root}: {error.strerror}") from error
    keys = secrets.token_hex(10), secrets.token_hex(20)
    planned = plan_obs(inside, image, str(root), f"{owner.st_uid}:{owner.st_gid}", *keys)
    create_container(client, planned)
    start_serving(client, planned)
    return planned


def create_network(client: DockerClient, name: str, labels: Mapping[str, str]) -> str:
    """Creates a network and returns its subnet.

    The engine assigns fixed addresses only in a subnet that was specified, and only the engine knows a free
    one: so a first network finds one, and a second network specifies it.

    Raises:
        APIError: others kept taking the subnet in between.
    """
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    def created(ipam: IPAMConfig | None = None) -> Any:
        return client.networks.create(name, driver="bridge", labels=dict(labels), ipam=ipam)

    attempts = 0
    while True:
        attempts += 1
        finder = created()
        finder.reload()
        subnet = str(finder.attrs["IPAM"]["Config"][0]["Subnet"])
        finder.remove()
        try:
            created(IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]))
        except APIError:  # the subnet was taken in between
            if attempts == _SUBNET_ATTEMPTS:
                raise
        else:
            return subnet


def create_container(client: DockerClient, plan: ContainerPlan) -> None:
    """Creates the container without starting it."""
    from docker.types import Mount

    api = client.api
    host = api.create_host_config(
        network_mode=plan.network,
        mounts=[Mount(target, source, type="bind") for target, source in plan.mounts.items()],
        mem_limit=plan.memory,
        memswap_limit=plan.memory,  # so there is no swap, as on a node of the platform
        shm_size=plan.shm_size,
    )
    endpoint = api.create_endpoint_config(ipv4_address=plan.address, aliases=list(plan.aliases))
    api.create_container(
        plan.image,
        command=list(plan.argv[1:]),
        entrypoint=[plan.argv[0]],
        environment=dict(plan.environ),
        user=plan.user,
        hostname=plan.hostname,
        name=plan.name,
        labels=dict(plan.labels),
        host_config=host,
        networking_config=api.create_networking_config({plan.network: endpoint}),
    )


def start(client: DockerClient, name: str) -> Any:
    """Starts a container and returns it.

    Raises:
        CommandNotFound: the image has no ma_boot.
        NotExecutable: its ma_boot cannot be executed.
        EngineRefused: any other refusal.
    """
    from docker.errors import APIError

    container = client.containers.get(name)
    try:
        container.start()
    except APIError as error:
        raise _refusal(name, str(error.explanation or error)) from error
    return container


def start_serving(client: DockerClient, plan: ContainerPlan) -> None:
    """Starts the container of OBS, and waits until it serves; raises `EngineRefused` if it does not."""
    container = start(client, plan.name)
    until = time.monotonic() + _READY_SECONDS
    while b"serving" not in (printed := container.logs()):
        container.reload()
        if container.status != "running" or time.monotonic() > until:
            raise EngineRefused(
                f"the OBS of the rehearsal did not start; its container {plan.name} printed\n"
                f"{printed.decode('utf-8', 'replace').strip() or 'nothing'}"
            )
        time.sleep(_POLL_SECONDS)


def remove_run(client: DockerClient, run: str, settle_seconds: float) -> list[str]:
    """Removes everything with the label of a run, until nothing new has appeared for `settle_seconds`.

    Returns what could not be removed within `_REMOVE_SECONDS`.
    """
    from docker.errors import APIError

    filters: Mapping[str, str] = {"label": f"{RUN_LABEL}={run}"}
    until = time.monotonic() + _REMOVE_SECONDS
    empty_since = None
    while True:
        containers = client.containers.list(all=True, filters=filters, ignore_removed=True, sparse=True)
        for container in containers:
            with contextlib.suppress(APIError):  # it is being removed or created: the next round will tell
                container.remove(force=True, v=True)
        networks = client.networks.list(filters=filters)
        for network in networks:
            with contextlib.suppress(APIError):  # a container is still attached
                network.remove()
        now = time.monotonic()
        if containers or networks:
            empty_since = None
            if now > until:
                return [
                    *(f"container {c.id[:12]}" for c in containers),
                    *(f"network {n.name}" for n in networks),
                ]
        else:
            empty_since = empty_since or now
            if now - empty_since >= settle_seconds:
                return []
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def removing(run: str, environ: Mapping[str, str], keep: bool) -> Iterator[None]:
    """Removes everything with the label of the run after the block; with `keep` only if the block raises.

    A guard process does so, even if this process is killed: then the kernel closes the pipe on which the
    guard reads what to do.
    """
    request = REMOVE
    process = subprocess.Popen(
        [sys.executable, "-m", "ma_boot.desk.rehearsal.containers", "guard", run],
        env={**environ, MARKER_VARIABLE: GUARD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
        request = KEEP if keep else REMOVE
    finally:
        answer, _ = process.communicate(request)
        # The guard was killed. Its exit code tells nothing: the reaper of orphans may have collected it.
        if answer != DONE and request == REMOVE:
            remove_and_report(run, environ, 0.0)


def remove_and_report(run: str, environ: Mapping[str, str], settle_seconds: float) -> None:
    """Removes everything with the label of the run, and reports what is left."""
    try:
        with engine(environ) as client:
            left = remove_run(client, run, settle_seconds)
    except (BootError, OSError) as error:  # a RequestException is an OSError
        left = [str(error)]
    if left:
        print_lines(
            f"[ma_boot] could not remove everything of this rehearsal: {', '.join(left)}\n"
            f"  see docker ps --all --filter label={RUN_LABEL}={run}, "
            "and docker network ls with the same filter",
            2,
        )
