"""Builds an image from a directory with a Dockerfile, and shows the progress."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterable, Mapping, Optional, Sequence

from ma_boot.errors import InputMissing, UsageError, listed
from ma_boot.image.check import ImageRejected
from ma_boot.image.container_engine import EngineRefused, image_attributes
from ma_boot.image.progress import EngineProgress, shown
from ma_boot.image.rules import GB
from ma_boot.redact import without_logins

if TYPE_CHECKING:
    from docker import DockerClient

    from ma_boot.reporting import Console

_TAIL_LINES = 30  # of the failing step


def build_image(
    client: DockerClient,
    context: Path,
    tag: str,
    arguments: Mapping[str, str],
    platform: Optional[str],
    console: Console,
) -> None:
    """Builds `tag` with the engine's classic builder, and removes the image that had the tag before.

    Raises `InputMissing` if there is no Dockerfile, `EngineRefused` with the last output of a failed step.
    """
    if not (context / "Dockerfile").is_file():
        raise InputMissing(f"no Dockerfile in {context}: give a clone of ma_boot, or your own build context")
    before = _id_of(client, tag)
    stream = client.api.build(
        path=str(context),
        tag=tag,
        buildargs=dict(arguments),
        platform=platform,
        rm=True,
        forcerm=True,
        decode=True,
    )
    with shown(console) as progress:
        follow(stream, progress)
    if before and before != _id_of(client, tag):
        _remove_unused(client, before)


def follow(stream: Iterable[Mapping[str, Any]], progress: EngineProgress) -> None:
    """Shows the steps of a build; raises `EngineRefused` if it fails."""
    tail: Deque[str] = deque(maxlen=_TAIL_LINES)
    for entry in stream:
        if entry.get("error"):
            output = listed("the build failed:", [*tail, str(entry["error"]).strip()])
            raise EngineRefused(without_logins(output))
        text = str(entry.get("stream") or entry.get("status") or "")
        for line in filter(None, map(str.strip, text.splitlines())):
            if line.startswith("Step "):
                tail.clear()
                progress.line(line)
            else:
                tail.append(line)
                progress.state(line)


def build_arguments(given: Sequence[str], environ: Mapping[str, str]) -> Dict[str, str]:
    """`NAME=VALUE`, or NAME for the value of an environment variable, as for `docker build`.

    Raises `UsageError` with the names of variables that are not set.
    """
    missing = [word for word in given if "=" not in word and word not in environ]
    if missing:
        raise UsageError(
            listed(
                "--build-arg without a value:", [f"{name} is not set in the environment" for name in missing]
            )
        )
    pairs = (word.partition("=") for word in given)
    return {name: value if equals else environ[name] for name, equals, value in pairs}


def check_size(size: int, budget: Optional[float], tag: str) -> None:
    """Raises `ImageRejected` if an image of `size` bytes exceeds a budget in GB."""
    if budget is not None and size > budget * GB:
        raise ImageRejected(
            f"{tag} has {size / GB:.2f} GB, the budget is {budget:g} GB: see `docker history {tag}`"
        )


def _id_of(client: DockerClient, tag: str) -> Optional[str]:
    try:
        return str(image_attributes(client, tag)["Id"])
    except InputMissing:
        return None


def _remove_unused(client: DockerClient, image_id: str) -> None:
    from docker.errors import APIError

    try:
        if not client.images.get(image_id).tags:
            client.images.remove(image_id)
    except APIError:  # used by a container, or the parent of another image
        return
