"""What the doctor finds, and how it is told. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

OK, WARNING, ERROR = "ok", "warning", "error"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `evidence` is what was seen, `remedy` what to do, empty where all is
    well.

    An error keeps a job from working; with a warning it may work.
    """

    check: str
    severity: str
    evidence: str
    remedy: str = ""


@dataclass(frozen=True)
class Patient:
    """Where the doctor looks: this process's variables and directory, and places of the machine.

    `places` have the free space that ModelArts' own check before a job wants, in GB.
    """

    environ: Mapping[str, str]
    hostname: str
    cwd: str
    driver: str = "/usr/local/Ascend/driver"
    devices: str = "/dev"
    places: Tuple[Tuple[str, int], ...] = (("/", 32), ("/cache", 32), ("/dev/shm", 1))


def failed(findings: Iterable[Finding]) -> List[Finding]:
    """The errors."""
    return [finding for finding in findings if finding.severity == ERROR]


def text(findings: Sequence[Finding]) -> str:
    """For people: a line for each finding, its remedy below it, and the sum."""
    lines: List[str] = []
    for finding in findings:
        head, *more = finding.evidence.split("\n")
        lines.append(f"{finding.severity:8} {finding.check:12} {head}")
        lines += [f"{'':21} {line}" for line in more]
        if finding.remedy:
            lines.append(f"{'':21} -> {finding.remedy}")
    return "\n".join([*lines, _sum(findings)])


def document(findings: Sequence[Finding]) -> Dict[str, Any]:
    """For programs."""
    return {"healthy": not failed(findings), "findings": [vars(finding) for finding in findings]}


def _sum(findings: Sequence[Finding]) -> str:
    counts = {kind: sum(finding.severity == kind for finding in findings) for kind in (ERROR, WARNING, OK)}
    return f"{counts[ERROR]} errors, {counts[WARNING]} warnings, {counts[OK]} well"
