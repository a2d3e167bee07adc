"""The conda of this machine, where simulated nodes look for their environments.

Their home is another directory than the user's, and a shell without `conda init` does not say where conda is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping

from ma_boot.errors import ConfigError
from ma_boot.node.environment.conda import ROOT_NAMES, conda_settings, find_environment

# Beside those that ModelArts' images have: the defaults of the installers, and usual places of a team.
_NAMES = (*ROOT_NAMES, "miniconda", "miniforge", "mambaforge", "micromamba")
_PARENTS = ("/opt", "/usr/local")


def conda_variables(conda_env: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables by which a node finds a named environment of this machine; none without one."""
    name = conda_env or environ.get("DEFAULT_CONDA_ENV_NAME")
    if not name or os.sep in name or environ.get("ANACONDA_DIR"):
        return {}
    home = environ.get("HOME") or os.path.expanduser("~")
    for root in dict.fromkeys(_installations(environ, home)):
        try:
            found = find_environment(None, name, {**environ, "CONDA_EXE": _conda_of(root)}, home)
        except ConfigError:
            continue
        used = found.root or root  # another one in the home may have it
        places = conda_settings(used, environ, home).envs_dirs
        return {"CONDA_EXE": _conda_of(used), "CONDA_ENVS_DIRS": os.pathsep.join(places)}
    return {}


def _conda_of(root: str) -> str:
    return os.path.join(root, "bin", "conda")


def _installations(environ: Mapping[str, str], home: str) -> Iterator[str]:
    programs = (environ.get("CONDA_EXE"), shutil.which("conda", path=environ.get("PATH", "")))
    for program in filter(None, programs):  # in bin or condabin
        yield os.path.dirname(os.path.dirname(os.path.realpath(program)))
    if environ.get("MAMBA_ROOT_PREFIX"):
        yield environ["MAMBA_ROOT_PREFIX"]
    for parent in (home, *_PARENTS):
        yield from filter(os.path.isdir, (os.path.join(parent, name) for name in (*_NAMES, "conda")))
