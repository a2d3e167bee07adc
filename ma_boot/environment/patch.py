"""Changes of an environment as data: `(name, value)` sets a variable, `(name, None)` removes it."""

from __future__ import annotations

import os
from typing import Dict, Iterable, Mapping, Optional, Tuple

Patch = Tuple[Tuple[str, Optional[str]], ...]


def applied(environ: Mapping[str, str], patch: Patch) -> Dict[str, str]:
    """A copy of the environment with the patch applied."""
    result = dict(environ)
    for name, value in patch:
        if value is None:
            result.pop(name, None)
        else:
            result[name] = value
    return result


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> Patch:
    """The patch that turns `before` into `after`, ordered by name."""
    names = sorted(before.keys() | after.keys())
    return tuple((name, after.get(name)) for name in names if before.get(name) != after.get(name))


def put_first(entry: str, path: str) -> str:
    """The search path with `entry` moved or added to the front; empty entries (they mean ".") are removed."""
    return os.pathsep.join([entry, *without(path, {entry})])


def without(path: str, dropped: Iterable[str]) -> Tuple[str, ...]:
    """The entries of a search path, without empty ones and those in `dropped`."""
    unwanted = {os.path.normpath(entry) for entry in dropped}
    return tuple(
        entry for entry in path.split(os.pathsep) if entry and os.path.normpath(entry) not in unwanted
    )
