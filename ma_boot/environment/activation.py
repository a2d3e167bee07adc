"""Computes what `conda activate` does to an environment, as conda/activate.py of conda 26 does.

What is for an interactive shell alone is left out: its prompt, and what a later `conda deactivate` needs.
"""

from __future__ import annotations

import json
import os
import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from ma_boot.environment.conda import PythonEnvironment, conda_settings
from ma_boot.environment.patch import Patch, put_first
from ma_boot.errors import ConfigError

_UNSET_BY_CONDA = "***unset***"  # the environment's own mark for "not configured"
_IDENTIFIER = r"[A-Za-z_][A-Za-z_0-9]*\Z"


class Activation(NamedTuple):
    """Scripts to source, the changes after them, and scripts to source with these changes made."""

    before: Tuple[str, ...]
    patch: Patch
    after: Tuple[str, ...]


def activation(selected: PythonEnvironment, environ: Mapping[str, str], home: str) -> Activation:
    """What conda's shell hook and `conda activate` do in `environ`, and what ma_boot adds to that.

    ma_boot removes `PYTHONHOME` and the `VIRTUAL_ENV` of another environment, from which the training would
    import packages, and puts the environment's `lib` first in `LD_LIBRARY_PATH`, as develop-modelarts-1416
    recommends. For a python outside of conda its directory is put first in `PATH`.

    Raises:
        ConfigError: a file of the conda environment or of conda's settings cannot be read.
    """
    changes: Dict[str, Optional[str]] = {"PYTHONHOME": None}
    if environ.get("VIRTUAL_ENV") != (selected.prefix or os.path.dirname(os.path.dirname(selected.python))):
        changes["VIRTUAL_ENV"] = None
    path = environ.get("PATH", "")
    if selected.prefix is None:
        kept = selected.origin == "PATH"
        changes["PATH"] = path if kept else put_first(os.path.dirname(selected.python), path)
        return Activation((), tuple(changes.items()), ())
    level, old = _level(environ), environ.get("CONDA_PREFIX")
    before = _scripts(old, "deactivate.d")[::-1] if old and level else ()
    changes.update(_conda_variables(selected, environ, home))
    changes["PATH"] = changes.get("PATH") or _conda_path(selected, environ)
    libraries = changes.get("LD_LIBRARY_PATH") or environ.get("LD_LIBRARY_PATH", "")
    changes["LD_LIBRARY_PATH"] = put_first(os.path.join(selected.prefix, "lib"), libraries)
    return Activation(before, tuple(changes.items()), _scripts(selected.prefix, "activate.d"))


def _conda_variables(
    selected: PythonEnvironment, environ: Mapping[str, str], home: str
) -> Dict[str, Optional[str]]:
    prefix, level, old = str(selected.prefix), _level(environ), environ.get("CONDA_PREFIX")
    again = level > 0 and old == prefix
    changes: Dict[str, str] = {"CONDA_SHLVL": str(level if again else level + 1)}
    if not again:
        changes["CONDA_PREFIX"], changes["CONDA_DEFAULT_ENV"] = prefix, str(selected.name)
        changes.update(_own_variables(prefix))
        if level:
            changes[f"CONDA_PREFIX_{level}"] = old or ""
    if selected.root is not None:
        exe = os.path.join(selected.root, "bin", "conda")
        changes.update(CONDA_EXE=exe, _CONDA_EXE=exe, _CONDA_ROOT=selected.root)
        changes["CONDA_PYTHON_EXE"] = os.path.join(selected.root, "bin", "python")
    upper = conda_settings(selected.root, environ, home).envvars_force_uppercase
    return {
        key.upper() if upper else key: value for key, value in changes.items() if re.match(_IDENTIFIER, key)
    }


def _level(environ: Mapping[str, str]) -> int:
    text = environ.get("CONDA_SHLVL", "").strip()
    return int(text) if text.isdecimal() else 0


def _conda_path(selected: PythonEnvironment, environ: Mapping[str, str]) -> str:
    """The environment first, or in the place of the active one; conda normalizes every entry."""
    path = environ.get("PATH", "")
    entries = [os.path.normpath(entry) for entry in path.split(os.pathsep)] if path else []
    new = os.path.join(str(selected.prefix), "bin")
    old = environ.get("CONDA_PREFIX")
    if _level(environ):
        same = [
            index
            for index, entry in enumerate(entries)
            if old and os.path.abspath(entry) == os.path.abspath(os.path.join(old, "bin"))
        ]
        first = same[0] if same else 0
        entries[first : first + 1 if same else first] = [new]
        return os.pathsep.join(entries)
    has_condabin = any(entry.endswith("condabin") for entry in entries)
    if selected.root is not None and not ("CONDA_SHLVL" in environ and has_condabin):
        entries.insert(0, os.path.join(selected.root, "condabin"))
    return os.pathsep.join([new, *entries])


def _own_variables(prefix: str) -> Dict[str, str]:
    """The variables of the environment's packages, then those of `conda env config vars set`."""
    variables: Dict[str, str] = {}
    directory = os.path.join(prefix, "etc", "conda", "env_vars.d")
    for file in sorted(entry.path for entry in os.scandir(directory)) if os.path.isdir(directory) else []:
        variables.update(_variables(_read_json(file), file))
    state = os.path.join(prefix, "conda-meta", "state")
    if os.path.exists(state):
        variables.update(_variables(_read_json(state).get("env_vars", {}), state))
    variables.pop("PATH", None)  # conda ignores it, with a warning
    return {name: value for name, value in variables.items() if value != _UNSET_BY_CONDA}


def _read_json(file: str) -> Dict[str, object]:
    try:
        with open(file, encoding="utf-8") as opened:
            document = json.load(opened)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: expected JSON written by conda, found: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected a JSON object, found {type(document).__name__}")
    return document


def _variables(document: object, file: str) -> Dict[str, str]:
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected variables as a JSON object, found {type(document).__name__}")
    return {str(name): "" if value is None else str(value) for name, value in document.items()}


def _scripts(prefix: str, directory: str) -> Tuple[str, ...]:
    """The scripts of a directory by name; like conda, whatever else is called `.sh` is not left out."""
    place = os.path.join(prefix, "etc", "conda", directory)
    try:
        found: List[str] = [entry.path for entry in os.scandir(place) if entry.name.endswith(".sh")]
    except OSError:
        return ()
    return tuple(sorted(found))
