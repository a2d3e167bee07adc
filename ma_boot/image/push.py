"""Pushes a local image to SWR: login, layers, digest; no credential in an argument, a log or the image."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, Mapping, Optional, Tuple

from ma_boot.errors import BootError, ConfigError, ExitCode
from ma_boot.image.container_engine import image_attributes
from ma_boot.image.progress import Progress, shown
from ma_boot.image.swr import Login, Target
from ma_boot.redact import MASK
from ma_boot.reporting import Console

if TYPE_CHECKING:
    from docker import DockerClient

# A registry may take that long, in silence, to take over a layer of many gigabytes.
SILENCE_SECONDS = 3600
# Words, not parts of them: a port may have 403 in it.
_REFUSALS = re.compile(r"\b(unauthorized|denied|authentication|401|403|incorrect username)\b", re.IGNORECASE)
_DONE = ("Pushed", "Layer already exists", "Mounted from")


class RegistryFailed(BootError):
    """The registry cannot be reached, drops the connection, or refuses the credentials."""

    exit_code = ExitCode.STORE_UNAVAILABLE


class PushFailed(Exception):
    """The engine gave the push up; its words."""


def configured_login(host: str) -> Optional[Mapping[str, str]]:
    """The docker config's entry for a registry, from its file or its credential store."""
    from docker import auth
    from docker.errors import DockerException

    try:
        entry: Optional[Mapping[str, str]] = auth.load_config().resolve_authconfig(host)
    except DockerException as error:
        raise ConfigError(f"the docker config has no usable entry for {host}: {error}") from error
    return entry


def push(client: DockerClient, image: str, target: Target, login: Login, console: Console) -> str:
    """Pushes `image` as `target` and returns the digest; the tag that it needs here is gone afterwards."""
    from docker.errors import APIError

    auth = {"username": login.user, "password": login.password, "serveraddress": target.host}
    try:
        client.api.login(login.user, login.password, registry=target.host, reauth=True)
    except APIError as error:
        raise failure_of(str(error.explanation or error), target, login) from error
    client.api.timeout = SILENCE_SECONDS
    with _tagged(client, image, target), shown(console) as progress:
        stream = client.api.push(
            target.repository, tag=target.tag, stream=True, decode=True, auth_config=auth
        )
        try:
            return follow(stream, progress)
        except PushFailed as failure:
            raise failure_of(str(failure), target, login) from failure


def follow(stream: Iterable[Mapping[str, Any]], progress: Progress) -> str:
    """Shows each layer's way and returns the digest; raises `PushFailed` where the stream has an error."""
    layers: Dict[str, Tuple[int, int]] = {}
    digest = ""
    for entry in stream:
        if entry.get("error"):
            raise PushFailed(str(entry["error"]))
        digest = str((entry.get("aux") or {}).get("Digest") or digest)
        status, layer = str(entry.get("status", "")), str(entry.get("id", ""))
        detail = entry.get("progressDetail") or {}
        if layer and status == "Pushing":
            layers[layer] = (int(detail.get("current", 0)), int(detail.get("total", 0)))
            progress.state(_sent(layers))
        elif layer and status.startswith((*_DONE, "Retrying")):
            size = f", {layers[layer][0] / 1e6:.1f} MB" if layer in layers else ""
            progress.line(f"layer {layer}: {status[0].lower()}{status[1:]}{size}")
    if not digest:
        raise PushFailed("the push ended without a digest")
    return digest


def _sent(layers: Mapping[str, Tuple[int, int]]) -> str:
    sent, total = (sum(numbers) / 1e6 for numbers in zip(*layers.values()))
    return f"pushing {len(layers)} layers: {sent:.0f} of {max(sent, total):.0f} MB"


@contextmanager
def _tagged(client: DockerClient, image: str, target: Target) -> Iterator[None]:
    """The target's name on a local image for the time of a push, where it had none before."""
    name = f"{target.repository}:{target.tag}"
    had = name in (image_attributes(client, image).get("RepoTags") or ())
    client.api.tag(image, target.repository, target.tag)
    try:
        yield
    finally:
        if not had:
            client.api.remove_image(name, noprune=True)


def failure_of(said: str, target: Target, login: Login) -> RegistryFailed:
    """What the engine said of a registry, as an error that says who is at fault; without the password."""
    words = said.replace(login.password, MASK).strip()
    if _REFUSALS.search(words):
        return RegistryFailed(
            f"{target.host} refused {login.user} (from {login.origin}): {words}\n"
            f"a temporary login ends after a day: make a new one; the user needs write permission for the "
            f"organization {target.organization}; the region of the user name is the registry's"
        )
    return RegistryFailed(
        f"{target.host} does not answer as a registry does: {words}\n"
        "see that this machine's engine reaches it (proxy, firewall, --region, --registry), then push again: "
        "layers that arrived are not sent twice"
    )
