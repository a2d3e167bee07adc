"""image/toolkit.txt, from which the image is built, locks every requirement of pyproject.toml."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Dict, Iterator, List

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[3] / "image" / "toolkit.txt"
PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13"]


def asked_for(name: str, python: str) -> Iterator[Requirement]:
    """The requirements of a package on a Python, and theirs, as far as they are installed here."""
    for line in importlib.metadata.requires(name) or []:
        found = Requirement(line)
        environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
        if found.marker is None or found.marker.evaluate(environment):
            yield found
            yield from asked_for(found.name, python)


def locked(python: str) -> Dict[str, str]:
    """Name and version of each locked package for a Python."""
    lines: List[str] = LOCK.read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {
        canonicalize_name(each.name): next(iter(each.specifier)).version
        for each in found
        if each.marker is None or each.marker.evaluate({"python_version": python})
    }


def test_the_lock_has_what_the_toolkit_needs() -> None:
    wrong = set()
    for python in PYTHONS:
        versions = locked(python)
        for needed in asked_for("ma-boot", python):
            version = versions.get(canonicalize_name(needed.name))
            if version is None or not needed.specifier.contains(version, prereleases=True):
                wrong.add(f"Python {python}: {needed}: image/toolkit.txt has {version}")
    assert sorted(wrong) == []
