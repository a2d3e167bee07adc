"""Calls of the container engine: creates and starts what was planned, and removes everything of a run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping

from ma_boot.errors import CommandNotFound, ConfigError, NotExecutable
from ma_boot.image import ARCHITECTURES, LABEL, EngineRefused, docker_platform, image_attributes
from ma_boot.rehearsal.containers.container_plan import RUN_LABEL, ContainerPlan, NetworkPlan

if TYPE_CHECKING:
    from docker import DockerClient

_READY_SECONDS = 120.0
_REMOVE_SECONDS = 60.0
_POLL_SECONDS = 0.1
_SUBNET_ATTEMPTS = 5


def check_runs_here(client: DockerClient, image: str) -> None:
    """Checks that the engine has the image and can run it, natively or by emulation.

    Raises:
        InputMissing: the engine does not have the image.
        ConfigError: it is for another architecture, and there is no emulation.
    """
    found = _machine(image_attributes(client, image).get("Architecture"))
    here = _machine(client.info().get("Architecture"))
    if found == here or _emulates(client, image):
        return
    raise ConfigError(
        f"{image} is for {found}, but the engine runs on {here} and has no emulation of {found} "
        f"(binfmt_misc): rehearse with an image of `ma_boot image build --platform {docker_platform(here)}`"
    )


def _machine(architecture: Any) -> str:
    return ARCHITECTURES.get(str(architecture), str(architecture))


def _emulates(client: DockerClient, image: str) -> bool:
    from docker.errors import APIError, ContainerError

    try:
        client.containers.run(
            image, ["--version"], entrypoint=["ma_boot"], remove=True, network_disabled=True,
            labels={LABEL: "probe"},
        )  # fmt: skip
    except (APIError, ContainerError):
        return False
    return True


def create_network(client: DockerClient, plan: NetworkPlan) -> str:
    """Creates the network; returns its subnet.

    The engine assigns fixed addresses only in a subnet that was specified, and only the engine knows a free
    one: so a first network finds one, and a second network specifies it.

    Raises:
        APIError: others kept taking the subnet in between.
    """
    from docker.errors import APIError
    from docker.types import IPAMConfig, IPAMPool

    # Without this option, even an internal network reaches the engine's own address, and so the services of
    # this machine, such as a proxy.
    options = {"com.docker.network.bridge.inhibit_ipv4": "true"} if plan.internal else {}

    def created(**more: Any) -> Any:
        return client.networks.create(
            plan.name,
            driver="bridge",
            internal=plan.internal,
            labels=dict(plan.labels),
            options=options,
            **more,
        )

    for attempt in range(_SUBNET_ATTEMPTS):
        finder = created()
        finder.reload()
        subnet = str(finder.attrs["IPAM"]["Config"][0]["Subnet"])
        finder.remove()
        try:
            created(ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]))
            return subnet
        except APIError:  # the subnet was taken in between
            if attempt == _SUBNET_ATTEMPTS - 1:
                raise
    raise AssertionError("not reached")


def create_container(client: DockerClient, plan: ContainerPlan) -> None:
    """Creates the container without starting it."""
    from docker.types import Mount

    api = client.api
    host = api.create_host_config(
        network_mode=plan.network,
        mounts=[Mount(mount.target, mount.source, type="bind") for mount in plan.mounts],
        **_limits(plan),
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


def _limits(plan: ContainerPlan) -> Dict[str, Any]:
    """The limits of memory; swap is off, as on a node of the platform."""
    limits: Dict[str, Any] = {}
    if plan.memory is not None:
        limits.update(mem_limit=plan.memory, memswap_limit=plan.memory)
    if plan.shm_size is not None:
        limits.update(shm_size=plan.shm_size)
    return limits


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
        text = str(error.explanation or error)
        if "executable file not found" in text or "no such file or directory" in text:
            raise CommandNotFound(
                f"{name}: the image has no ma_boot, expected one of `ma_boot image build` ({text})"
            ) from error
        if "permission denied" in text or "exec format error" in text:
            raise NotExecutable(f"{name}: the image's ma_boot cannot be executed: {text}") from error
        raise EngineRefused(f"{name} could not be started: {text}") from error
    return container


def start_serving(client: DockerClient, plan: ContainerPlan) -> None:
    """Starts the container of OBS and waits until it serves.

    Raises:
        EngineRefused: it does not start or serve.
    """
    container = start(client, plan.name)
    until = time.monotonic() + _READY_SECONDS
    while b"serving" not in (printed := container.logs()):
        container.reload()
        if container.status != "running" or time.monotonic() > until:
            raise EngineRefused(
                f"the OBS of the rehearsal in {plan.mounts[0].source} did not start; its container printed\n"
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
            try:
                container.remove(force=True, v=True)
            except APIError:  # it is being removed or created: the next round will tell
                continue
        networks = client.networks.list(filters=filters)
        for network in networks:
            try:
                network.remove()
            except APIError:  # a container is still attached
                continue
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
