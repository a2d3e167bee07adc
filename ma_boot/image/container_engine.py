"""The container engine: reached, asked for images, and its refusals as errors that say what to do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Iterator, Mapping

from ma_boot.errors import BootError, ExitCode, InputMissing, UsageError

if TYPE_CHECKING:
    from docker import DockerClient

ANSWER_SECONDS = 120


class EngineUnavailable(BootError):
    """No container engine answers, or it may not be used."""

    exit_code = ExitCode.STORE_UNAVAILABLE


class EngineRefused(BootError):
    """The engine answered, and could not do what was asked."""

    exit_code = ExitCode.CONFIG


@contextmanager
def engine(environ: Mapping[str, str]) -> Iterator[DockerClient]:
    """The engine that DOCKER_HOST names, else the local one; refusals become `EngineRefused`."""
    try:
        import docker
        import requests
        from docker.errors import APIError, DockerException
    except ImportError as missing:
        raise EngineUnavailable(
            f"`ma_boot image` needs the docker SDK ({missing}): pip install 'ma-boot[image]'"
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
        raise EngineRefused(f"the engine at {where} refused: {error.explanation or error}") from error
    except requests.exceptions.RequestException as error:
        raise EngineUnavailable(
            f"the engine at {where} stopped answering: {_first_line(error)}\nsee its log, and start again"
        ) from error
    finally:
        client.close()


def image_attributes(client: DockerClient, name: str) -> Mapping[str, Any]:
    """The engine's description of a local image.

    Raises `InputMissing` where there is none, `UsageError` for a name that no image can have.
    """
    from docker.errors import APIError, ImageNotFound

    try:
        return dict(client.images.get(name).attrs)
    except ImageNotFound as error:
        raise InputMissing(
            f"no image {name} here: see `docker images`, or build it with `ma_boot image build`"
        ) from error
    except APIError as error:
        if "invalid reference" not in str(error):
            raise
        raise UsageError(f"no image can be called {name!r}: expected NAME, NAME:TAG or an id") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
