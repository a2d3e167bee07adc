"""All rules, and what they find."""

from __future__ import annotations

from typing import List, Optional

from ma_boot.image.rules import boot, contents, credentials, platform, variables
from ma_boot.image.rules.facts import ImageFacts
from ma_boot.modelarts import ERROR, Finding

RULES = (*platform.RULES, *boot.RULES, *contents.RULES, *variables.RULES, *credentials.RULES)


def judged(facts: ImageFacts, arch: Optional[str]) -> List[Finding]:
    """The findings for the facts, errors first; `arch` is that of the job's servers, None if unknown."""
    found = [finding for rule in RULES for finding in rule(facts)]
    found += contents.architecture(facts, arch)
    return sorted(found, key=lambda finding: finding.severity != ERROR)
