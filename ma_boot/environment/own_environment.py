"""The virtual environment of ma_boot itself, in which no training should run unnoticed."""

from __future__ import annotations

import os
import shutil
from typing import Dict, Mapping, NamedTuple, Optional

from ma_boot.environment.patch import put_first

FRAMEWORKS = ("torch", "mindspore", "tensorflow", "jax", "paddle")


class Outside(NamedTuple):
    """The variables without ma_boot's own environment; `note` is about the first python on their `PATH`."""

    environ: Mapping[str, str]
    note: str = ""


def outside_of(prefix: Optional[str], environ: Mapping[str, str]) -> Outside:
    """What a shell without ma_boot's environment would have; `prefix` is its directory, None if it has none.

    If its `bin` is on `PATH`, because it is active or the user has added it, it is taken away: the
    training, and the scripts that it runs, get the active environment's python, or the next one. It stays if
    it has a framework for training, so is the user's own, and if there is no other python.
    """
    if prefix is None:
        return Outside(environ)
    own = os.path.realpath(os.path.join(prefix, "bin"))
    entries = [entry for entry in environ.get("PATH", "").split(os.pathsep) if entry]
    others = [entry for entry in entries if os.path.realpath(entry) != own]
    if len(others) == len(entries):
        return Outside(environ)
    python = os.path.join(prefix, "bin", "python")
    framework = _framework(os.path.join(prefix, "lib"))
    if framework is not None:
        return Outside(environ, f"ma_boot's own environment, which has {framework}")
    result: Dict[str, str] = dict(environ)
    path = os.pathsep.join(others)
    active = _active(prefix, environ)
    if active is not None:
        path = put_first(os.path.join(active, "bin"), path)
    if not any(shutil.which(name, path=path) for name in ("python", "python3")):
        return Outside(environ, "ma_boot's own environment: there is no other python on PATH")
    result["PATH"] = path
    if active != environ.get("VIRTUAL_ENV"):
        result.pop("VIRTUAL_ENV", None)
    return Outside(result, f"the next one after ma_boot's own {python}, which --python would select")


def _framework(lib: str) -> Optional[str]:
    """The framework for training that an environment has below its `lib`."""
    pythons = [name for name in os.listdir(lib) if name.startswith("python3")] if os.path.isdir(lib) else []
    for framework in FRAMEWORKS:
        if any(os.path.exists(os.path.join(lib, python, "site-packages", framework)) for python in pythons):
            return framework
    return None


def _active(prefix: str, environ: Mapping[str, str]) -> Optional[str]:
    """The active environment, if it is another one."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        found = environ.get(name, "")
        is_other = os.path.isabs(found) and os.path.realpath(found) != os.path.realpath(prefix)
        if is_other and os.path.isfile(os.path.join(found, "bin", "python")):
            return found
    return None
