"""How rules say what they found."""

from __future__ import annotations

import re
from typing import Callable, Iterator, Sequence

from ma_boot.image.rules.facts import ImageFacts
from ma_boot.modelarts import ERROR, WARNING, Finding

Rule = Callable[[ImageFacts], Iterator[Finding]]
# What the dynamic loader and Python say of a library that does not fit.
_LOADER = re.compile(
    r"shared librar|symbol lookup|undefined symbol|GLIBC|version `|ELF|relocation|lib\w+\.so"
)


def error(rule: str, evidence: str, remedy: str) -> Finding:
    """A finding with which a job fails or is rejected."""
    return Finding(rule, ERROR, evidence, remedy)


def warning(rule: str, evidence: str, remedy: str) -> Finding:
    """A finding with which a job may run."""
    return Finding(rule, WARNING, evidence, remedy)


def remedy_for(facts: ImageFacts, answer: str, otherwise: str) -> str:
    """What to do about a program that ended with this answer: a library of `LD_LIBRARY_PATH` or `LD_PRELOAD`
    may have kept it from starting."""
    names = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if facts.environ.get(name)]
    if names and _LOADER.search(answer):
        given = ", ".join(f"{name}={facts.environ[name]}" for name in names)
        return f"remove {given} from ENV: its libraries replace those of the image's own programs"
    return otherwise


def some(items: Sequence[str]) -> str:
    """The first three of them, and how many more there are."""
    return ", ".join(items[:3]) + (f" and {len(items) - 3} more" if len(items) > 3 else "")
