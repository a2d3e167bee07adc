"""What a check of a container or an image found, measured by what ModelArts expects. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OK, WARNING, ERROR = "ok", "warning", "error"


class Finding(NamedTuple):
    """The result of a check: `evidence` is what was found, `remedy` what to do, empty if nothing.

    With an error a job would fail or be rejected; with a warning it may run.
    """

    check: str
    severity: str
    evidence: str
    remedy: str = ""


def failed(findings: Iterable[Finding]) -> list[Finding]:
    """The errors."""
    return [finding for finding in findings if finding.severity == ERROR]
