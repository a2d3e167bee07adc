"""Checks an image against ModelArts' rules: gathers facts, applies the rules, formats the findings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Tuple

from ma_boot.errors import BootError, ExitCode, UsageError
from ma_boot.image.container_engine import image_attributes, layer_directories
from ma_boot.image.probe import probed, searched, started
from ma_boot.image.rules import GB, from_metadata, judged
from ma_boot.modelarts import Finding, failed

if TYPE_CHECKING:
    from docker import DockerClient


class ImageRejected(BootError):
    """The image breaks rules, so that a job would fail."""

    exit_code = ExitCode.RANK_TABLE_INVALID


@dataclass(frozen=True)
class CheckedImage:
    """An image and all that was found, errors first; `architecture` as in `uname -m`, `size` in bytes."""

    name: str
    architecture: str
    size: int
    findings: Tuple[Finding, ...] = ()


def check_image(
    client: DockerClient, image: str, arch: Optional[str] = None, command: Optional[str] = None
) -> CheckedImage:
    """Checks a local image.

    `arch` is that of the job's servers, `command` a boot command to try. Raises `InputMissing` if there is no
    such image, `UsageError` if its name or the command is malformed.
    """
    if command and "\n" in command:
        raise UsageError("--command: a boot command cannot contain line breaks")
    attributes = image_attributes(client, image)
    layers = client.api.history(attributes["Id"])
    facts = from_metadata(image, attributes, [str(layer.get("CreatedBy") or "") for layer in layers])
    facts = probed(client, facts)
    if facts.inside is not None:
        has_bash = "bash" in facts.inside.programs
        facts = searched(client, facts, layer_directories(attributes))
        if command and has_bash:
            facts = started(client, facts, command)
    return CheckedImage(image, facts.architecture, facts.size, tuple(judged(facts, arch)))


def reject_errors(checked: CheckedImage) -> None:
    """Raises `ImageRejected` if a finding is an error."""
    count = len(failed(checked.findings))
    if count:
        raise ImageRejected(f"{checked.name} breaks {count} of ModelArts' rules: see above")


def findings_text(checked: CheckedImage) -> str:
    """Each finding with its remedy, then what the image is."""
    lines = [f"{f.severity}: {f.check}: {f.evidence}\n    -> {f.remedy}" for f in checked.findings]
    ready = "ready for ModelArts" if not failed(checked.findings) else "not ready for ModelArts"
    return "\n".join(
        [*lines, f"{checked.name}: {ready} ({checked.architecture}, {checked.size / GB:.2f} GB)"]
    )


def findings_json(checked: CheckedImage) -> str:
    """The findings as a JSON document."""
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
