"""Connects to the container engine, shows its progress, and adds remedies to its errors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ma_boot.errors import BootError, ExitCode, InputMissing, UsageError
from ma_boot.node.environment.extras import install_command
from ma_boot.redact import without_secrets
from ma_boot.report.console import Console, Show

if TYPE_CHECKING:
    from docker import DockerClient

# Seconds to wait for an answer of the engine.
ANSWER_SECONDS = 120
# Seconds between lines of the status where output is not a terminal.
PLAIN_SECONDS = 10.0
_WIDTH = 100


class EngineUnavailable(BootError):
    """No container engine answers, or the user may not use it."""

    exit_code = ExitCode.STORE_UNAVAILABLE


class EngineRefused(BootError):
    """The engine answered with an error."""

    exit_code = ExitCode.CONFIG


@contextmanager
def engine(environ: Mapping[str, str]) -> Iterator[DockerClient]:
    """Yields a client for the engine at DOCKER_HOST, or the local one.

    Errors of the engine in the block become `EngineRefused`. Raises `EngineUnavailable` if there is no
    docker SDK, no engine answers, or the connection is lost in the block.
    """
    try:
        import docker
        import requests
        from docker.errors import APIError, DockerException
    except ImportError as missing:
        raise EngineUnavailable(
            f"the docker SDK is missing ({missing}): {install_command('image')}"
        ) from missing
    where = environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        client = docker.from_env(environment=dict(environ), timeout=ANSWER_SECONDS)
        client.ping()
    except DockerException as error:
        raise EngineUnavailable(
            f"no container engine answers at {where}: {_first_line(error)}\n"
            "start it (systemctl start docker), join the group docker, or set DOCKER_HOST"
        ) from error
    try:
        yield client
    except APIError as error:
        raise EngineRefused(f"error from the engine at {where}: {error.explanation or error}") from error
    except requests.exceptions.RequestException as error:
        raise EngineUnavailable(
            f"lost the connection to the engine at {where}: {_first_line(error)}\nsee its log, then try again"
        ) from error
    finally:
        client.close()


def image_attributes(client: DockerClient, name: str) -> Mapping[str, Any]:
    """Returns the engine's description of a local image.

    Raises `InputMissing` if it does not exist, `UsageError` if the name is malformed.
    """
    from docker.errors import APIError, ImageNotFound

    try:
        return dict(client.images.get(name).attrs)
    except ImageNotFound as error:
        raise InputMissing(
            f"no such image: {name}; see `docker images`, or build it with `ma_boot image build`"
        ) from error
    except APIError as error:
        if "invalid reference" not in str(error):
            raise
        raise UsageError(f"invalid image name {name!r}: expected NAME, NAME:TAG or an id") from error


def layer_directories(attributes: Mapping[str, Any]) -> list[str]:
    """Returns the directories of an image's layers on the engine's machine; empty if unknown."""
    driver = attributes.get("GraphDriver") or {}
    data = driver.get("Data") or {}
    if driver.get("Name") != "overlay2":
        return []
    return [
        part for name in ("LowerDir", "UpperDir") for part in str(data.get(name) or "").split(":") if part
    ]


@contextmanager
def shown(console: Console) -> Iterator[EngineProgress]:
    """Shows progress on the console; removes the status line at the end of the block."""
    with console.below() as show:
        yield EngineProgress(console, show)


class EngineProgress:
    """Permanent lines, and a status line that is replaced."""

    def __init__(self, console: Console, show: Show) -> None:
        self._console = console
        self._show = show
        self._said = time.monotonic()

    def line(self, text: str) -> None:
        """Prints a permanent line."""
        self._said = time.monotonic()
        self._show(())
        self._console.line(text)

    def state(self, text: str) -> None:
        """Shows the status: replaces it on a terminal, else prints a line at most every 10 s."""
        self._show([without_secrets(text)[:_WIDTH]])
        if not self._console.interactive and time.monotonic() - self._said >= PLAIN_SECONDS:
            self.line(text)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
