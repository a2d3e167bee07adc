"""Builds an image from a directory with a Dockerfile, and shows the progress."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ma_boot.desk.image.check import ImageRejected
from ma_boot.desk.image.container_engine import EngineProgress, EngineRefused, image_attributes, shown
from ma_boot.desk.image.rules.facts import GB
from ma_boot.errors import CannotCreate, InputMissing, UsageError, listed
from ma_boot.redact import without_secrets
from ma_boot.report.console import Console

if TYPE_CHECKING:
    from docker import DockerClient

# Number of output lines of a failed step in the error.
_TAIL_LINES = 30
# Colours and movements of the cursor, which programs and the engine put around their output.
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FROM = re.compile(r"Step \d+/\d+ : FROM ")
_BASE_IMAGE = (
    "the base image could not be pulled: name one that this engine has or reaches (of a mirror, of SWR) with "
    "`make image BASE_IMAGE=NAME` or --build-arg BASE_IMAGE=NAME, or configure registry-mirrors in the "
    "engine's daemon.json"
)
_ADVICE = (
    (
        re.compile(
            r"deb\.debian\.org|archive\.ubuntu\.com|Unable to fetch some archives|Temporary failure resolving"
        ),
        "the packages of the distribution could not be fetched: use a BASE_IMAGE with gcc and python3-venv, "
        "or put a wheel of crcmod into image/wheels (image/wheels/README.md)",
    ),
    (
        re.compile(
            r"Temporary failure in name resolution|NewConnectionError|No matching distribution found|SSLError"
        ),
        "the package index could not be used: name another one with PIP_INDEX_URL, or put wheels into "
        "image/wheels and set PIP_NO_INDEX=1 (`make image PIP_INDEX_URL=URL`, --build-arg PIP_INDEX_URL)",
    ),
    (
        re.compile(r"DO NOT MATCH THE HASHES"),
        "the index has another file than image/toolkit.txt locks: use another index, or put your wheel into "
        "image/wheels",
    ),
)


def build_image(
    client: DockerClient,
    context: Path,
    tag: str,
    *,
    arguments: Mapping[str, str],
    platform: str | None,
    console: Console,
) -> None:
    """Builds `tag` with the engine's classic builder, and removes the image that had the tag before.

    Raises `InputMissing` if there is no Dockerfile, `CannotCreate` if a file of the context cannot be read or
    packed, `EngineRefused` with the last output of a failed step.
    """
    if not (context / "Dockerfile").is_file():
        raise InputMissing(f"no Dockerfile in {context}: give a clone of ma_boot, or your own build context")
    import requests

    before = _id_of(client, tag)
    try:
        stream = client.api.build(
            path=str(context),
            tag=tag,
            buildargs=dict(arguments),
            platform=platform,
            rm=True,
            forcerm=True,
            decode=True,
        )
    # requests' exceptions are OSErrors too, but these are the engine's, not of a file.
    except requests.exceptions.RequestException:
        raise
    # The SDK packs the build context into a temporary file.
    except OSError as error:
        raise CannotCreate(
            f"the build context {context} cannot be packed: {error.__cause__ or error}"
        ) from error
    with shown(console) as progress:
        follow(stream, progress)
    if before and before != _id_of(client, tag):
        _remove_unused(client, before)


def follow(stream: Iterable[Mapping[str, Any]], progress: EngineProgress) -> None:
    """Shows the steps of a build; raises `EngineRefused` if it fails."""
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    step = ""
    for entry in stream:
        text = _TERMINAL_CODES.sub("", str(entry.get("stream") or entry.get("status") or ""))
        if entry.get("error"):
            reason = _TERMINAL_CODES.sub("", str(entry["error"])).strip()
            output = listed("the build failed:", [*tail, reason])
            raise EngineRefused(
                "\n".join([without_secrets(output), *_advice(step, "\n".join([*tail, reason]))])
            )
        for line in filter(None, map(str.strip, text.splitlines())):
            if line.startswith("Step "):
                tail.clear()
                step = line
                progress.line(line)
            else:
                tail.append(line)
                progress.state(line)


def _advice(step: str, text: str) -> list[str]:
    """Returns advice on a failed step if its output shows the reason."""
    if _FROM.match(step):
        if "no matching manifest" in text:
            return ["the base image has nothing for this platform: another BASE_IMAGE, or another --platform"]
        return [_BASE_IMAGE]
    return [advice for pattern, advice in _ADVICE if pattern.search(text)][:1]


def build_arguments(given: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Parses `NAME=VALUE`, or NAME for the value of an environment variable, as `docker build` does.

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


def check_size(size: int, budget: float | None, tag: str) -> None:
    """Raises `ImageRejected` if an image of `size` bytes exceeds a budget in GB."""
    if budget is not None and size > budget * GB:
        raise ImageRejected(
            f"{tag} has {size / GB:.2f} GB, the budget is {budget:g} GB: see `docker history {tag}`"
        )


def _id_of(client: DockerClient, tag: str) -> str | None:
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
