"""image/toolkit.txt, the lock file of the image, has every requirement of pyproject.toml."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[3] / "image" / "toolkit.txt"
HASH = re.compile(r"sha256:[0-9a-f]{64}")
PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13"]


def required_by(name: str, python: str) -> Iterator[Requirement]:
    """Yields the requirements of a package on a Python, and theirs, as far as they are installed here."""
    for line in own_requirements() if name == "ma-boot" else importlib.metadata.requires(name) or []:
        requirement = Requirement(line)
        environment = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield requirement
            yield from required_by(requirement.name, python)


def own_requirements() -> list[str]:
    """Returns the requirements of pyproject.toml, which the metadata of an older installation may lack."""
    text = (LOCK.parents[1] / "pyproject.toml").read_text()
    match = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert match is not None
    return re.findall(r'"([^"]+)"', match.group(1))


def locked(python: str) -> dict[str, str]:
    """Returns name and version of each locked package for a Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    return {
        canonicalize_name(each.name): next(iter(each.specifier)).version
        for each, _ in entries(LOCK)
        if each.marker is None or each.marker.evaluate(environment)
    }


def entries(lock: Path) -> Iterator[tuple[Requirement, list[str]]]:
    """Yields each requirement of a file with its hashes."""
    text = "".join(line for line in lock.read_text().splitlines(True) if not line.startswith("#"))
    for line in filter(None, text.replace("\\\n", " ").splitlines()):
        words = line.split(" --hash=")
        yield Requirement(words[0].strip()), [word.strip() for word in words[1:]]


def test_packages_have_the_hashes_of_their_files() -> None:
    for lock in LOCK.parent.glob("toolkit*.txt"):
        locked_hashes = {str(each): hashes for each, hashes in entries(lock)}
        assert locked_hashes
        assert [
            name
            for name, hashes in locked_hashes.items()
            if not all(HASH.fullmatch(hash_) for hash_ in hashes)
        ] == []
        assert [name for name, hashes in locked_hashes.items() if not hashes] == []
    # A package with C has wheels for x86-64, aarch64 and more.
    assert all(
        len(hashes) > 20 for each, hashes in entries(LOCK) if each.name in ("pyyaml", "charset-normalizer")
    )


def test_lock_has_all_requirements_of_the_toolkit() -> None:
    wrong = set()
    for python in PYTHONS:
        versions = locked(python)
        for needed in required_by("ma-boot", python):
            version = versions.get(canonicalize_name(needed.name))
            if version is None or not needed.specifier.contains(version, prereleases=True):
                wrong.add(f"Python {python}: {needed}: image/toolkit.txt has {version}")
    assert sorted(wrong) == []
