"""Selects the training's Python environment, and computes what `conda activate` would change.

ModelArts starts the boot command without a shell, so `conda activate` is not available. Its documentation
(develop-modelarts-1416) describes four ways to select an environment, all supported by `find_environment`:

1. `ANACONDA_DIR` and `DEFAULT_CONDA_ENV_NAME` in the image,
2. the absolute path of the environment's python: `--python`,
3. a `PATH` that contains it,
4. `conda run -n NAME`: `--conda-env NAME`, without conda's output buffering and lost signals.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

from ma_boot.environment.patch import Patch, put_first, without
from ma_boot.errors import ConfigError, listed

ROOT_NAMES = ("anaconda", "anaconda3", "miniconda3", "miniforge3")
_UNSET_BY_CONDA = "***unset***"


@dataclass(frozen=True)
class PythonEnvironment:
    """The python that runs the training, and its conda environment, if it is in one.

    `prefix` and `name` are None for a python outside of conda; `origin` is the option or variable that
    selected it.
    """

    python: str
    prefix: Optional[str]
    name: Optional[str]
    origin: str


def find_environment(
    python: Optional[str], conda_env: Optional[str], environ: Mapping[str, str], home: str
) -> PythonEnvironment:
    """The environment selected by `--python`, `--conda-env`, the image's variables or `PATH`, in this order.

    Raises `ConfigError`, which lists the places searched and the environments that exist, if it is not found.
    """
    roots = _conda_roots(environ, home)
    if python:
        return _by_python(python, "--python", roots)
    if conda_env:
        return _by_name(conda_env, f"--conda-env {conda_env}", roots)
    default = environ.get("DEFAULT_CONDA_ENV_NAME")
    if default:
        return _by_name(default, f"DEFAULT_CONDA_ENV_NAME={default}", roots)
    path = environ.get("PATH", "")
    on_path = shutil.which("python", path=path) or shutil.which("python3", path=path)
    if on_path:
        return _by_python(os.path.abspath(on_path), "PATH", roots)
    conda_dir = environ.get("ANACONDA_DIR")
    variables = f"only ANACONDA_DIR={conda_dir}" if conda_dir else "not set"
    raise ConfigError(
        listed(
            "no Python environment for the training was found; looked for",
            [
                "--python: not given",
                "--conda-env: not given",
                f"ANACONDA_DIR and DEFAULT_CONDA_ENV_NAME: {variables}",
                f"python or python3 on PATH={path}: none",
                _existing(roots),
            ],
        )
    )


def _conda_roots(environ: Mapping[str, str], home: str) -> Tuple[str, ...]:
    """Where conda may be installed; only in `ANACONDA_DIR` if that is set."""
    if environ.get("ANACONDA_DIR"):
        return (environ["ANACONDA_DIR"],)
    return tuple(os.path.join(home, name) for name in ROOT_NAMES)


def _by_python(python: str, origin: str, roots: Tuple[str, ...]) -> PythonEnvironment:
    if not os.path.isabs(python):
        raise ConfigError(
            f"{origin} {python}: expected the absolute path of a python, for example /opt/env/bin/python"
        )
    if not _is_executable(python):
        what = "is not executable" if os.path.exists(python) else "does not exist"
        raise ConfigError(listed(f"{origin} {python} {what}", [_existing(roots)]))
    prefix = os.path.dirname(os.path.dirname(python))
    if not os.path.isdir(os.path.join(prefix, "conda-meta")):
        return PythonEnvironment(python, None, None, origin)
    return PythonEnvironment(python, prefix, _name_of(prefix), origin)


def _by_name(name: str, origin: str, roots: Tuple[str, ...]) -> PythonEnvironment:
    looked_for = [_prefix(root, name) for root in roots]
    for prefix in looked_for:
        python = os.path.join(prefix, "bin", "python")
        if _is_executable(python):
            return PythonEnvironment(python, prefix, name, origin)
    raise ConfigError(
        listed(
            f"{origin}: no such environment",
            [
                "looked for bin/python in " + ", ".join(looked_for),
                _existing(roots),
                "name one of these, or set ANACONDA_DIR to the directory that conda is installed in",
            ],
        )
    )


def _prefix(root: str, name: str) -> str:
    """`base` is the installation itself, not a directory under `envs`."""
    return root if name == "base" else os.path.join(root, "envs", name)


def _name_of(prefix: str) -> str:
    """The name that conda shows: that of a directory under `envs`, `base`, else the path."""
    parent = os.path.dirname(prefix)
    if os.path.basename(parent) == "envs":
        return os.path.basename(prefix)
    return "base" if os.path.isdir(os.path.join(prefix, "envs")) else prefix


def existing_environments(environ: Mapping[str, str], home: str) -> str:
    """The conda environments that exist, as a phrase for messages."""
    return _existing(_conda_roots(environ, home))


def _existing(roots: Tuple[str, ...]) -> str:
    found = []
    for root in roots:
        names = ["base"] if _is_executable(os.path.join(root, "bin", "python")) else []
        envs = os.path.join(root, "envs")
        if os.path.isdir(envs):
            entries = sorted(os.listdir(envs))
            names += [name for name in entries if _is_executable(os.path.join(envs, name, "bin", "python"))]
        if names:
            found.append(f"{', '.join(names)} in {root}")
    return "environments that exist: " + ("; ".join(found) if found else "none in " + ", ".join(roots))


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def activation(selected: PythonEnvironment, environ: Mapping[str, str]) -> Patch:
    """What `conda activate` changes in `environ`, without its scripts.

    The directory of a python outside of conda is prepended to `PATH`. `PYTHONHOME`, and the `VIRTUAL_ENV` of
    another environment, are removed: the training would import packages from there. Raises `ConfigError` if
    a file of the conda environment is not valid JSON.
    """
    prefix = selected.prefix or os.path.dirname(os.path.dirname(selected.python))
    changes: Dict[str, Optional[str]] = {"PYTHONHOME": None}
    if environ.get("VIRTUAL_ENV") != prefix:
        changes["VIRTUAL_ENV"] = None
    path = environ.get("PATH", "")
    if selected.prefix is None:
        changes["PATH"] = (
            path if selected.origin == "PATH" else put_first(os.path.dirname(selected.python), path)
        )
    else:
        changes.update(_conda_variables(selected.prefix, environ))
        changes["CONDA_DEFAULT_ENV"] = selected.name
        old = environ.get("CONDA_PREFIX")
        kept = os.pathsep.join(without(path, {os.path.join(old, "bin")})) if old else path
        changes["PATH"] = put_first(os.path.join(prefix, "bin"), kept)
        # develop-modelarts-1416 recommends it if a library of the environment is not found.
        changes["LD_LIBRARY_PATH"] = put_first(
            os.path.join(prefix, "lib"), environ.get("LD_LIBRARY_PATH", "")
        )
    return tuple(changes.items())


def _conda_variables(prefix: str, environ: Mapping[str, str]) -> Dict[str, Optional[str]]:
    """CONDA_PREFIX, CONDA_SHLVL and the environment's own variables, in conda's order of precedence."""
    changes: Dict[str, Optional[str]] = {}
    for file in sorted(Path(prefix, "etc", "conda", "env_vars.d").glob("*.json")):
        changes.update(_variables(_read_json(file), file))
    state = Path(prefix, "conda-meta", "state")
    if state.is_file():
        changes.update(_variables(_read_json(state).get("env_vars", {}), state))
    old = environ.get("CONDA_PREFIX")
    level = environ.get("CONDA_SHLVL", "")
    level_now = int(level) if level.isdecimal() else 0
    if old and old != prefix:
        changes[f"CONDA_PREFIX_{level_now}"] = old
    changes["CONDA_PREFIX"] = prefix
    changes["CONDA_SHLVL"] = str(level_now if old == prefix and level_now else level_now + 1)
    return changes


def _read_json(file: Path) -> Dict[str, object]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: expected JSON written by conda, found: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected a JSON object, found {type(document).__name__}")
    return document


def _variables(document: object, file: Path) -> Dict[str, Optional[str]]:
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected variables as a JSON object, found {type(document).__name__}")
    return {str(name): None if value == _UNSET_BY_CONDA else str(value) for name, value in document.items()}


def activation_scripts(selected: PythonEnvironment) -> Tuple[str, ...]:
    """The scripts that `conda activate` sources, in the same order."""
    if selected.prefix is None:
        return ()
    scripts: List[Path] = sorted(Path(selected.prefix, "etc", "conda", "activate.d").glob("*.sh"))
    return tuple(str(script) for script in scripts)
