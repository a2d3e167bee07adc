"""The version in `ma_boot/__init__.py` is that of the distribution and of the changelog."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

from ma_boot import __version__

ROOT = Path(__file__).parents[3]


def test_the_distribution_has_the_packages_version() -> None:
    assert importlib.metadata.version("ma-boot") == __version__


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(
        r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )
    assert headings[0][0] == __version__
