"""Findings of the checks of a container or an image by the rules of ModelArts. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OK, WARNING, ERROR = "ok", "warning", "error"


class Finding(NamedTuple):
    """Result of a check: `evidence` is the observation, `remedy` the advice, empty if all is well.

    With an error a job would fail or be rejected; with a warning it may run.
    """

    check: str
    severity: str
    evidence: str
    remedy: str = ""


def failed(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the errors."""
    return [finding for finding in findings if finding.severity == ERROR]
