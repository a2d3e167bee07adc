"""An image held against ModelArts' rules: facts gathered, rules applied, findings as text or JSON."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, List, Optional, Sequence

from ma_boot.errors import BootError, ExitCode, UsageError
from ma_boot.image.container_engine import image_attributes
from ma_boot.image.content_rules import TRAPS, architecture
from ma_boot.image.facts import ImageFacts, from_metadata
from ma_boot.image.platform_rules import GENERAL, Finding
from ma_boot.image.probe import probed, started

if TYPE_CHECKING:
    from docker import DockerClient

_SEPARATORS = {";", "&&", "||", "|", "&"}


class ImageRejected(BootError):
    """The image breaks rules that a job would fail on."""

    exit_code = ExitCode.RANK_TABLE_INVALID


def check(client: DockerClient, image: str, arch: Optional[str], command: Optional[str]) -> List[Finding]:
    """Every finding of a local image, errors first; `command` is a boot command to try."""
    programs = programs_of(command) if command else []
    facts = probed(client, from_metadata(image, image_attributes(client, image)))
    if command and facts.inside is not None:
        facts = started(client, facts, command, programs)
    return judged(facts, arch)


def judged(facts: ImageFacts, arch: Optional[str]) -> List[Finding]:
    """The findings that follow from the facts, errors first."""
    found = [finding for rule in (*GENERAL, *TRAPS) for finding in rule(facts)]
    found += architecture(facts, arch)
    return sorted(found, key=lambda finding: finding.severity != "error")


def programs_of(command: str) -> List[str]:
    """The program of each part of a boot command such as `cd code && ma_boot train.py`."""
    if "\n" in command:
        raise UsageError("--command: a boot command has no line breaks")
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


def refuse(image: str, findings: Sequence[Finding]) -> None:
    """Raises `ImageRejected` where a finding is an error."""
    count = sum(finding.severity == "error" for finding in findings)
    if count:
        raise ImageRejected(f"{image} breaks {count} of ModelArts' rules: see above")


def as_text(image: str, findings: Sequence[Finding]) -> str:
    """For people: each finding with its remedy, or the good news."""
    lines = [f"{f.severity}: {f.rule}: {f.evidence}\n    -> {f.remedy}" for f in findings]
    return "\n".join(lines) or f"{image}: ready for ModelArts"


def as_json(image: str, findings: Sequence[Finding]) -> str:
    """For programs."""
    return json.dumps({"image": image, "findings": [finding.__dict__ for finding in findings]}, indent=2)


def _is_assignment(word: str) -> bool:
    return "=" in word and word.partition("=")[0].isidentifier()
