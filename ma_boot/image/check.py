"""Checks an image against ModelArts' rules: gathers facts, applies the rules, formats the findings."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, List, Optional, Sequence

from ma_boot.errors import BootError, ExitCode, UsageError
from ma_boot.image.container_engine import image_attributes
from ma_boot.image.content_rules import CONTENT_RULES, architecture
from ma_boot.image.facts import ImageFacts, from_metadata
from ma_boot.image.platform_rules import PLATFORM_RULES
from ma_boot.image.probe import probed, started
from ma_boot.modelarts import ERROR, Finding, failed

if TYPE_CHECKING:
    from docker import DockerClient

_SEPARATORS = {";", "&&", "||", "|", "&"}


class ImageRejected(BootError):
    """The image breaks rules, so that a job would fail."""

    exit_code = ExitCode.RANK_TABLE_INVALID


def check_image(
    client: DockerClient, image: str, arch: Optional[str] = None, command: Optional[str] = None
) -> List[Finding]:
    """All findings for a local image, errors first.

    `arch` is that of the job's servers, `command` a boot command to try. Raises `InputMissing` if there is no
    such image, `UsageError` if its name or the command is malformed.
    """
    programs = programs_of(command) if command else []
    facts = probed(client, from_metadata(image, image_attributes(client, image)))
    if command and facts.inside is not None:
        facts = started(client, facts, command, programs)
    return judged(facts, arch)


def judged(facts: ImageFacts, arch: Optional[str]) -> List[Finding]:
    """The findings for the facts, errors first."""
    found = [finding for rule in (*PLATFORM_RULES, *CONTENT_RULES) for finding in rule(facts)]
    found += architecture(facts, arch)
    return sorted(found, key=lambda finding: finding.severity != ERROR)


def programs_of(command: str) -> List[str]:
    """The program of each part of a boot command such as `cd code && ma_boot train.py`.

    Raises `UsageError` if the command contains a line break or an unclosed quote.
    """
    if "\n" in command:
        raise UsageError("--command: a boot command cannot contain line breaks")
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    programs: List[str] = []
    expected = True
    try:
        for word in words:
            if word in _SEPARATORS:
                expected = True
            elif expected and not _is_assignment(word):
                programs.append(word)
                expected = False
    except ValueError as error:
        raise UsageError(f"--command {command}: {error}") from error
    return programs


def reject_errors(image: str, findings: Sequence[Finding]) -> None:
    """Raises `ImageRejected` if a finding is an error."""
    count = len(failed(findings))
    if count:
        raise ImageRejected(f"{image} breaks {count} of ModelArts' rules: see above")


def findings_text(image: str, findings: Sequence[Finding]) -> str:
    """Each finding with its remedy, or a line that there is none."""
    lines = [f"{f.severity}: {f.check}: {f.evidence}\n    -> {f.remedy}" for f in findings]
    return "\n".join(lines) or f"{image}: ready for ModelArts"


def findings_json(image: str, findings: Sequence[Finding]) -> str:
    """The findings as a JSON document."""
    rows = [
        {"rule": f.check, "severity": f.severity, "evidence": f.evidence, "remedy": f.remedy}
        for f in findings
    ]
    return json.dumps({"image": image, "findings": rows}, indent=2)


def _is_assignment(word: str) -> bool:
    return "=" in word and word.partition("=")[0].isidentifier()
