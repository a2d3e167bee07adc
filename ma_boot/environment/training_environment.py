"""Selects, activates and sources the environment of the training processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Callable, Dict, Mapping, Optional, Sequence

import ma_boot
from ma_boot.environment.conda import PythonEnvironment, activation, activation_scripts, find_environment
from ma_boot.environment.patch import applied, put_first, without
from ma_boot.environment.shell import sourced
from ma_boot.processes import SignalInbox

PACKAGE_DIR = os.path.dirname(os.path.abspath(ma_boot.__file__))


@dataclass(frozen=True)
class TrainingEnvironment:
    """The python that runs the training, and the environment on which that of each process is based."""

    python: str
    environ: Mapping[str, str]
    origin: str


def select_environment(
    python: Optional[str],
    conda_env: Optional[str],
    sources: Sequence[str],
    environ: Mapping[str, str],
    home: str,
    inbox: SignalInbox,
    say: Callable[[str], None],
) -> TrainingEnvironment:
    """The environment after `conda activate` and `source FILE...`, the selected one first in search paths.

    Raises `ConfigError` if the environment or a file cannot be used, `Stopped` at a stop signal.
    """
    found = find_environment(python, conda_env, environ, home)
    activated = applied(environ, activation(found, environ))
    after = applied(activated, sourced((*activation_scripts(found), *sources), activated, inbox, say))
    ordered = _selected_first(found, after)
    ordered["PYTHONUNBUFFERED"] = "1"
    ordered["PYTHONPATH"] = _training_path(ordered.get("PYTHONPATH", ""))
    return TrainingEnvironment(found.python, ordered, f"{found.python} by {found.origin}")


def _selected_first(found: PythonEnvironment, environ: Mapping[str, str]) -> Dict[str, str]:
    """Moves the environment before the entries that a sourced file (CANN's set_env.sh) has prepended."""
    result = dict(environ)
    if found.prefix is not None:
        for name, part in (("PATH", "bin"), ("LD_LIBRARY_PATH", "lib")):
            result[name] = put_first(os.path.join(found.prefix, part), result.get(name, ""))
    return result


def _training_path(pythonpath: str) -> str:
    """The user's PYTHONPATH without the toolkit's own entry, followed by what training code may import.

    `for_training` makes `ma_boot` and `path_mapping` importable, and nothing else of the toolkit.
    """
    users = without(pythonpath, {os.path.dirname(PACKAGE_DIR)})
    return os.pathsep.join([*users, os.path.join(PACKAGE_DIR, "for_training")])
