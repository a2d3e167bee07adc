"""Changes of an environment as values: a text sets a variable, None removes it. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Optional

Patch = Mapping[str, Optional[str]]


def applied(environ: Mapping[str, str], patch: Patch) -> dict[str, str]:
    """Returns a copy of the environment with the patch applied."""
    return {name: value for name, value in {**environ, **patch}.items() if value is not None}


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the patch that turns `before` into `after`, ordered by name."""
    names = sorted(before.keys() | after.keys())
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}


def put_first(entry: str, path: str) -> str:
    """Returns the search path with `entry` in front, and without empty entries, which mean "."."""
    return os.pathsep.join([entry, *without(path, {entry})])


def without(path: str, dropped: Iterable[str]) -> tuple[str, ...]:
    """Returns the entries of a search path, without empty ones and those in `dropped`."""
    unwanted = {os.path.normpath(entry) for entry in dropped}
    return tuple(
        entry for entry in path.split(os.pathsep) if entry and os.path.normpath(entry) not in unwanted
    )
