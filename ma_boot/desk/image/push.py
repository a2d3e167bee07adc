"""Pushes a local image to SWR; credentials appear in no argument, log or image."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ma_boot.desk.image.container_engine import EngineProgress, image_attributes, shown
from ma_boot.desk.image.swr import Login, Target
from ma_boot.errors import BootError, ConfigError, ExitCode
from ma_boot.redact import MASK
from ma_boot.report.console import Console
from ma_boot.wording import size

if TYPE_CHECKING:
    from docker import DockerClient

# A registry may need this long, without an answer, to store a layer of many gigabytes.
SILENCE_SECONDS = 3600
# Whole words: a port may contain 403.
_REFUSALS = re.compile(r"\b(unauthorized|denied|authentication|401|403|incorrect username)\b", re.IGNORECASE)
_DONE = ("Pushed", "Layer already exists", "Mounted from")


class RegistryFailed(BootError):
    """The registry cannot be reached, drops the connection, or rejects the credentials."""

    exit_code = ExitCode.STORE_UNAVAILABLE


class PushFailed(Exception):
    """The push failed; the message is the engine's."""


def configured_login(host: str) -> Mapping[str, str] | None:
    """Returns the docker config's entry for a registry, from its file or credential store; None without one.

    Raises `ConfigError` if the config or the credential store cannot be read.
    """
    from docker import auth
    from docker.errors import DockerException

    try:
        entry: Mapping[str, str] | None = auth.load_config().resolve_authconfig(host)
    except DockerException as error:
        raise ConfigError(f"the docker config has no usable entry for {host}: {error}") from error
    return entry


def push_image(client: DockerClient, image: str, target: Target, login: Login, console: Console) -> str:
    """Pushes `image` as `target` and returns the digest; the local tag for it is removed afterwards.

    Raises `RegistryFailed` if the login or the push fails.
    """
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


def follow(stream: Iterable[Mapping[str, Any]], progress: EngineProgress) -> str:
    """Shows the progress of the layers and returns the digest; raises `PushFailed` if the push fails."""
    layers: dict[str, tuple[int, int]] = {}
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
            amount = f", {size(layers[layer][0])}" if layer in layers else ""
            progress.line(f"layer {layer}: {status[0].lower()}{status[1:]}{amount}")
    if not digest:
        raise PushFailed("the push ended without a digest")
    return digest


def _sent(layers: Mapping[str, tuple[int, int]]) -> str:
    sent, total = (sum(numbers) for numbers in zip(*layers.values()))
    return f"pushing {len(layers)} layers: {size(sent)} of {size(max(sent, total))}"


@contextmanager
def _tagged(client: DockerClient, image: str, target: Target) -> Iterator[None]:
    """Tags a local image with the target's name in the block, unless it has this tag already."""
    name = f"{target.repository}:{target.tag}"
    had = name in (image_attributes(client, image).get("RepoTags") or ())
    client.api.tag(image, target.repository, target.tag)
    try:
        yield
    finally:
        if not had:
            client.api.remove_image(name, noprune=True)


def failure_of(answer: str, target: Target, login: Login) -> RegistryFailed:
    """Turns the engine's message, without the password, into an error that names login or connection."""
    message = answer.replace(login.password, MASK).strip()
    if _REFUSALS.search(message):
        return RegistryFailed(
            f"{target.host} rejected {login.user} (from {login.origin}): {message}\n"
            "check that a temporary login is not older than a day, that the user has write permission for "
            f"the organization {target.organization}, and that the region in the user name is the registry's"
        )
    return RegistryFailed(
        f"{target.host} did not respond as a registry: {message}\n"
        "check that the engine can reach it (proxy, firewall, --region, --registry), then push again: layers "
        "that have been pushed are not sent again"
    )
