"""Calls of the container engine: creates and starts what was planned, and removes everything of a run."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, List, Mapping, Optional

from ma_boot.errors import BootError, CommandNotFound, ConfigError, NotExecutable
from ma_boot.image import (
    ARCHITECTURES,
    EngineRefused,
    docker_platform,
    image_attributes,
    run_inside,
    this_toolkit,
)
from ma_boot.rehearsal.containers.container_plan import RUN_LABEL, ContainerPlan

if TYPE_CHECKING:
    from docker import DockerClient

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
    found = _machine(image_attributes(client, image).get("Architecture"))
    here = _machine(client.info().get("Architecture"))
    run = run_inside(client, image, ["ma_boot", "--version"], _VERSION_SECONDS)
    if run.refusal or run.exit_code != 0:
        refusal = _refusal(image, run.refusal) if run.refusal else None
        if found != here and (refusal is None or isinstance(refusal, NotExecutable)):
            raise ConfigError(
                f"{image} is for {found}, but the engine runs on {here} and has no emulation of {found} "
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
    """Why the engine did not start `ma_boot` in a container."""
    if "executable file not found" in text or "no such file or directory" in text:
        return CommandNotFound(
            f"{name}: the image has no ma_boot that starts, expected one of `ma_boot image build` ({text})\n"
            f"{_LOOK}"
        )
    if "permission denied" in text or "exec format error" in text:
        return NotExecutable(f"{name}: the image's ma_boot cannot be executed: {text}")
    return EngineRefused(f"{name} could not be started: {text}")


def create_network(client: DockerClient, name: str, labels: Mapping[str, str]) -> str:
    """Creates a network and returns its subnet.

    The engine assigns fixed addresses only in a subnet that was specified, and only the engine knows a free
    one: so a first network finds one, and a second network specifies it.

    Raises:
        APIError: others kept taking the subnet in between.
    """
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    def created(ipam: Optional[IPAMConfig] = None) -> Any:
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


def remove_run(client: DockerClient, run: str, settle_seconds: float) -> List[str]:
    """Removes everything with the label of a run, until nothing new has appeared for `settle_seconds`.

    Returns what could not be removed within `_REMOVE_SECONDS`.
    """
    from docker.errors import APIError

    filters: Mapping[str, str] = {"label": f"{RUN_LABEL}={run}"}
    until = time.monotonic() + _REMOVE_SECONDS
    empty_since = None
    while True:
        found = client.containers.list(all=True, filters=filters, ignore_removed=True, sparse=True)
        for container in found:
            with contextlib.suppress(APIError):  # it is being removed or created: the next round will tell
                container.remove(force=True, v=True)
        networks = client.networks.list(filters=filters)
        for network in networks:
            with contextlib.suppress(APIError):  # a container is still attached
                network.remove()
        now = time.monotonic()
        if found or networks:
            empty_since = None
            if now > until:
                return [f"container {one.id[:12]}" for one in found] + [f"network {n.name}" for n in networks]
        else:
            empty_since = empty_since or now
            if now - empty_since >= settle_seconds:
                return []
        time.sleep(_POLL_SECONDS)
