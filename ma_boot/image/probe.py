"""Runs a probe and a boot command in short-lived containers, as ModelArts' user and without network."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Optional, Sequence

from ma_boot.image.facts import LABEL, ImageFacts, Started, parsed_probe
from ma_boot.modelarts import PLATFORM_HOME, PLATFORM_UID

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

PROBE = Path(__file__).with_name("probe.sh")
PROBE_SECONDS = 300.0
START_SECONDS = 20.0
_KEPT_CHARACTERS = 2000


@dataclass(frozen=True)
class Run:
    """The result of a container; `exit_code` is None if it was stopped at the timeout, `refusal` is the
    engine's error if it could not start."""

    exit_code: Optional[int]
    output: str
    refusal: str = ""


@contextmanager
def temporary(client: DockerClient, image: str, command: Sequence[str]) -> Iterator[Container]:
    """A container that is removed with its anonymous volumes at the end of the block."""
    container = client.containers.create(
        image,
        entrypoint=list(command[:1]),
        command=list(command[1:]),
        user=str(PLATFORM_UID),
        working_dir="/",
        network_mode="none",
        labels={LABEL: "probe"},
    )
    try:
        yield container
    finally:
        container.remove(force=True, v=True)


def run_inside(client: DockerClient, image: str, command: Sequence[str], seconds: float) -> Run:
    """Runs a command in a new container for at most so many seconds."""
    import requests
    from docker.errors import APIError

    with temporary(client, image, command) as container:
        try:
            container.start()
        except APIError as error:
            return Run(None, "", str(error.explanation or error))
        code: Optional[int] = None
        try:
            code = int(container.wait(timeout=seconds)["StatusCode"])
        except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError):
            container.kill()
        return Run(code, container.logs().decode(errors="replace"))


def probed(client: DockerClient, facts: ImageFacts) -> ImageFacts:
    """The facts with the results of the probe."""
    run = run_inside(client, facts.name, ["/bin/sh", "-c", PROBE.read_text(encoding="utf-8")], PROBE_SECONDS)
    if run.refusal or "exec format error" in run.output:
        return replace(facts, refusal=run.refusal or "exec format error")
    if run.exit_code is None:
        return replace(facts, refusal=f"the probe did not end within {PROBE_SECONDS:.0f} s")
    return replace(facts, inside=parsed_probe(run.output))


def started(client: DockerClient, facts: ImageFacts, command: str, programs: Sequence[str]) -> ImageFacts:
    """The facts with the result of the boot command, run in the home; `programs` are those it names."""
    looking = 'for program; do command -v "$program" >/dev/null || echo "$program: not found"; done'
    there = f"cd {PLATFORM_HOME} && {{ %s\n}}"
    lost = run_inside(client, facts.name, ["/bin/sh", "-c", there % looking, "sh", *programs], START_SECONDS)
    if lost.refusal or lost.output:
        return replace(
            facts, started=Started(command, False, lost.exit_code, lost.refusal or lost.output.strip())
        )
    run = run_inside(client, facts.name, ["/bin/sh", "-c", there % command], START_SECONDS)
    output = run.output.strip()[-_KEPT_CHARACTERS:]
    return replace(facts, started=Started(command, True, run.exit_code, output))
