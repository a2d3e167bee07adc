"""The environment of the training processes: selected, activated, sourced."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Callable, Dict, Mapping, Optional, Sequence

import ma_boot
from ma_boot.environment.conda import PythonEnvironment, activation, activation_scripts, find
from ma_boot.environment.patch import applied, put_first, without
from ma_boot.environment.shell import sourced
from ma_boot.processes import SignalInbox

PACKAGE_DIR = os.path.dirname(os.path.abspath(ma_boot.__file__))


@dataclass(frozen=True)
class TrainingEnvironment:
    """The python that runs the training and the environment that every process starts from."""

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
    """What `conda activate` and then `source FILE...` would leave, with the selected environment first.

    Raises `ConfigError`, and `Stopped` when a signal comes while a script runs.
    """
    found = find(python, conda_env, environ, home)
    activated = applied(environ, activation(found, environ))
    after = applied(activated, sourced((*activation_scripts(found), *sources), activated, inbox, say))
    ordered = _selected_first(found, after)
    ordered["PYTHONUNBUFFERED"] = "1"
    ordered["PYTHONPATH"] = training_path(ordered.get("PYTHONPATH", ""))
    return TrainingEnvironment(found.python, ordered, f"{found.python} by {found.origin}")


def _selected_first(found: PythonEnvironment, environ: Mapping[str, str]) -> Dict[str, str]:
    """A sourced file (CANN's set_env.sh) puts itself before everything; the environment goes before it."""
    result = dict(environ)
    if found.prefix is not None:
        for name, part in (("PATH", "bin"), ("LD_LIBRARY_PATH", "lib")):
            result[name] = put_first(os.path.join(found.prefix, part), result.get(name, ""))
    return result


def training_path(pythonpath: str) -> str:
    """The user's PYTHONPATH without the toolkit's own entry, and behind it what training code may import.

    `for_training` shows `ma_boot` and `path_mapping`, and nothing else of the toolkit's environment.
    """
    users = without(pythonpath, {os.path.dirname(PACKAGE_DIR)})
    return os.pathsep.join([*users, os.path.join(PACKAGE_DIR, "for_training")])
