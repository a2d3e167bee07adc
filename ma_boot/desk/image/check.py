"""Checks an image against ModelArts' rules: gathers facts, applies the rules, formats the findings.

Probes and a boot command run in short-lived containers, without network, as ModelArts' user or root.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ma_boot.desk.image.container_engine import image_attributes, layer_directories
from ma_boot.desk.image.rules import boot, contents, secrets, variables
from ma_boot.desk.image.rules.contents import architecture
from ma_boot.desk.image.rules.facts import GB, LABEL, ImageFacts, Started, from_metadata, parse_probe
from ma_boot.errors import BootError, ExitCode, UsageError
from ma_boot.platform.modelarts.findings import ERROR, Finding, failed
from ma_boot.platform.modelarts.job import PLATFORM_HOME, PLATFORM_UID

if TYPE_CHECKING:
    from docker import DockerClient

PROBE, IMPORTS, OWN_KEYS = (
    Path(__file__).with_name(name).read_text(encoding="utf-8")
    for name in ("probe.sh", "toolkit_imports.py", "own_keys.sh")
)
# Seconds; the probe and the search read every file of an image of up to 30 GB.
PROBE_SECONDS = 300.0
# Seconds; a boot command that still runs then has started well.
START_SECONDS = 20.0
# Directory of the user's keys in the container that searches for them.
KEYS = "/.ma_boot-keys"
_KEPT_CHARACTERS = 2000

RULES = (
    *(contents.user, contents.account, contents.group, contents.home, contents.places, contents.shell),
    *(boot.toolkit, boot.stop_signal, boot.entry_point, boot.tried_command),
    *(contents.environments, contents.size, contents.driver, contents.set_id),
    *(variables.protected, variables.of_a_job, variables.everywhere, variables.named_files),
    *(variables.search_paths, secrets.credential_in_configuration, secrets.own_key_in_image),
)


class ImageRejected(BootError):
    """The image breaks rules with which a job would fail."""

    exit_code = ExitCode.RANK_TABLE_INVALID


@dataclass(frozen=True)
class CheckedImage:
    """An image and its findings, errors first; `architecture` as in `uname -m`, `size` in bytes."""

    name: str
    architecture: str
    size: int
    findings: tuple[Finding, ...] = ()


def check_image(
    client: DockerClient,
    image: str,
    environ: Mapping[str, str],
    *,
    arch: str | None = None,
    command: str | None = None,
) -> CheckedImage:
    """Checks a local image.

    Searches it for the values of keys in `environ`. `arch` is the architecture of the job's servers,
    `command` a boot command to try. Raises `InputMissing` if there is no such image, `UsageError` if its name
    or the command is malformed.
    """
    if command and "\n" in command:
        raise UsageError("--command: a boot command cannot contain line breaks")
    attributes = image_attributes(client, image)
    layers = client.api.history(attributes["Id"])
    facts = from_metadata(image, attributes, [str(layer.get("CreatedBy") or "") for layer in layers])
    facts = add_probe(client, facts)
    if not facts.refusal:
        facts = add_exposed_keys(client, facts, layer_directories(attributes), keys=secrets.own_keys(environ))
        if command and "bash" in facts.inside.programs:
            facts = add_trial(client, facts, command)
    return CheckedImage(image, facts.architecture, facts.size, tuple(apply_rules(facts, arch)))


def reject_errors(checked: CheckedImage) -> None:
    """Raises `ImageRejected` if a finding is an error."""
    count = len(failed(checked.findings))
    if count:
        raise ImageRejected(f"{checked.name} breaks {count} of ModelArts' rules: see above")


def findings_text(checked: CheckedImage) -> str:
    """Formats the findings with their remedies, then a line with the verdict."""
    lines = [f"{f.severity}: {f.check}: {f.evidence}\n    -> {f.remedy}" for f in checked.findings]
    ready = "ready for ModelArts" if not failed(checked.findings) else "not ready for ModelArts"
    lines.append(secrets.OTHER_SCANNERS.format(checked.name))
    return "\n".join(
        [*lines, f"{checked.name}: {ready} ({checked.architecture}, {checked.size / GB:.2f} GB)"]
    )


def findings_json(checked: CheckedImage) -> str:
    """Formats the findings as a JSON document."""
    rows = [
        {"rule": f.check, "severity": f.severity, "evidence": f.evidence, "remedy": f.remedy}
        for f in checked.findings
    ]
    document = {
        "image": checked.name,
        "architecture": checked.architecture,
        "size": checked.size,
        "findings": rows,
    }
    return json.dumps(document, indent=2)


def apply_rules(facts: ImageFacts, arch: str | None) -> list[Finding]:
    """Applies all rules; returns findings, errors first.

    `arch` is the servers' architecture, None if unknown.
    """
    findings = [finding for rule in RULES for finding in rule(facts)]
    findings += architecture(facts, arch)
    return sorted(findings, key=lambda finding: finding.severity != ERROR)


@dataclass(frozen=True)
class Run:
    """The result of a container; `exit_code` is None if it was stopped at the timeout, `refusal` is the
    engine's error if it could not start."""

    exit_code: int | None
    output: str
    refusal: str = ""


def run_inside(
    client: DockerClient,
    image: str,
    command: Sequence[str],
    seconds: float,
    *,
    user: int = PLATFORM_UID,
    mounts: Mapping[str, str] = MappingProxyType({}),
    files: Mapping[str, str] = MappingProxyType({}),
) -> Run:
    """Runs a command in a new container for at most `seconds`.

    `mounts` maps directories of the engine's machine to their places inside, `files` names to contents below
    `KEYS`, readable by root alone. The container is removed with its anonymous volumes.
    """
    import requests
    from docker.errors import APIError

    container = client.containers.create(
        image,
        entrypoint=list(command[:1]),
        command=list(command[1:]),
        user=str(user),
        working_dir="/",
        network_mode="none",
        volumes={source: {"bind": target, "mode": "ro"} for source, target in mounts.items()},
        labels={LABEL: "probe"},
    )
    try:
        if files:
            container.put_archive("/", _archive(files))
        try:
            container.start()
        except APIError as error:
            return Run(None, "", str(error.explanation or error))
        code: int | None = None
        try:
            code = int(container.wait(timeout=seconds)["StatusCode"])
        except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError):
            container.kill()
        return Run(code, container.logs().decode(errors="replace"))
    finally:
        container.remove(force=True, v=True)


def _archive(files: Mapping[str, str]) -> bytes:
    """Returns a tar archive of the files below `KEYS`, as the engine's API takes it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        directory = tarfile.TarInfo(KEYS[1:])
        directory.type, directory.mode = tarfile.DIRTYPE, 0o700
        archive.addfile(directory)
        for name, text in files.items():
            content = text.encode("utf-8", "surrogateescape")
            entry = tarfile.TarInfo(f"{KEYS[1:]}/{name}")
            entry.size, entry.mode = len(content), 0o400
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def add_probe(client: DockerClient, facts: ImageFacts) -> ImageFacts:
    """Returns the facts with the results of the probe."""
    run = run_inside(client, facts.name, ["/bin/sh", "-c", PROBE, "sh", IMPORTS], PROBE_SECONDS)
    if run.refusal or "exec format error" in run.output:
        return replace(facts, refusal=run.refusal or "exec format error")
    if run.exit_code is None:
        return replace(facts, refusal=f"the probe did not end within {PROBE_SECONDS:.0f} s")
    inside = parse_probe(run.output)
    if inside is None:
        last = (run.output.strip().splitlines() or ["no output"])[-1]
        return replace(facts, refusal=f"the probe ended with {run.exit_code}: {last}")
    return replace(facts, inside=inside)


def add_exposed_keys(
    client: DockerClient, facts: ImageFacts, layers: Sequence[str], *, keys: Mapping[str, str]
) -> ImageFacts:
    """Returns the facts with the places of the user's keys; root reads the files of other users too.

    `layers` are the directories where the engine keeps the layers. A file that a later layer removes is still
    in its own; without `layers`, or where they cannot be mounted, such files are not found.
    """
    if not keys:
        return facts
    # Copied into the container, which is removed: an argument or a variable would be visible to others.
    files = {"all": "\n".join(keys.values())} | {str(number): key for number, key in enumerate(keys.values())}
    mounts = {directory: f"/.ma_boot-layers/{number}" for number, directory in enumerate(layers)}
    run = Run(None, "")
    for given in (mounts, {}) if mounts else ({},):
        program = ["/bin/sh", "-c", OWN_KEYS, "sh", KEYS, *(given.values() or ["/"])]
        run = run_inside(client, facts.name, program, PROBE_SECONDS, user=0, mounts=given, files=files)
        if not run.refusal:
            break
    found, is_complete = secrets.parse_search(run.output, list(keys))
    exposed = secrets.keys_in_metadata(facts, keys) + found
    return replace(facts, exposed_keys=exposed, searched=is_complete)


def add_trial(client: DockerClient, facts: ImageFacts, command: str) -> ImageFacts:
    """Returns the facts with the result of the boot command, run by bash in the home directory."""
    shell = ["bash", "-c", f"cd {PLATFORM_HOME} || exit; {command}"]
    run = run_inside(client, facts.name, shell, START_SECONDS)
    output = (run.refusal or run.output).strip()[-_KEPT_CHARACTERS:]
    return replace(facts, started=Started(command, run.exit_code, output))
