"""Selects the training's Python environment, and computes the variables after `conda activate`.

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
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ma_boot.errors import ConfigError, listed
from ma_boot.node.environment.patch import Patch, put_first
from ma_boot.wording import Message

# Directories of conda's settings (conda/base/constants.py, SEARCH_PATH): a later file takes precedence.
_DIRECTORIES = (
    "/etc/conda", "/var/lib/conda", "$CONDA_ROOT", "$XDG_CONFIG_HOME/conda", "~/.config/conda", "~/.conda",
)  # fmt: skip
_FALSE = {"false", "no", "off", "0", "n", ""}
ROOT_NAMES = ("anaconda", "anaconda3", "miniconda3", "miniforge3")


class PythonEnvironment(NamedTuple):
    """Python that runs the training, and its conda environment, if it is in one.

    `prefix` and `name` are None for a python outside of conda; `origin` is the option or variable that
    selected it; `root` is the installation whose `bin/conda` manages the environment, if there is one.
    """

    python: str
    prefix: str | None
    name: str | None
    origin: str
    root: str | None = None


def find_environment(
    python: str | None, conda_env: str | None, environ: Mapping[str, str], home: str
) -> PythonEnvironment:
    """Finds the environment by `--python`, `--conda-env`, the image's variables or `PATH`, in this order.

    Raises `ConfigError`, which lists the places searched and the environments that exist, if it is not found.
    """
    if python:
        return _by_python(python, "--python", environ, home)
    if conda_env:
        return _by_name(conda_env, f"--conda-env {conda_env}", environ, home)
    default = environ.get("DEFAULT_CONDA_ENV_NAME")
    if default:
        return _by_name(default, f"DEFAULT_CONDA_ENV_NAME={default}", environ, home)
    on_path = find_on_path(environ, home, "PATH")
    if on_path is not None:
        return on_path
    conda_dir = environ.get("ANACONDA_DIR")
    variables = f"only ANACONDA_DIR={conda_dir}" if conda_dir else "not set"
    raise ConfigError(
        listed(
            Message("no Python environment for the training was found; looked for"),
            [
                "--python: not given",
                "--conda-env: not given",
                f"ANACONDA_DIR and DEFAULT_CONDA_ENV_NAME: {variables}",
                f"python or python3 on PATH={environ.get('PATH', '')}: none",
                existing_environments(environ, home),
            ],
        )
    )


def find_on_path(environ: Mapping[str, str], home: str, origin: str) -> PythonEnvironment | None:
    """Finds the environment of the first python on `PATH`; None without a python."""
    python = first_python(environ)
    return _by_python(python, origin, environ, home) if python else None


def first_python(environ: Mapping[str, str]) -> str | None:
    """Returns the absolute path of `python` on `PATH`, or else of `python3`; None without both."""
    path = environ.get("PATH", "")
    python = shutil.which("python", path=path) or shutil.which("python3", path=path)
    return os.path.abspath(python) if python else None


def _conda_roots(environ: Mapping[str, str], home: str) -> tuple[str, ...]:
    """Returns the directories in which conda may be installed; only `ANACONDA_DIR` if that is set."""
    if environ.get("ANACONDA_DIR"):
        return (os.path.abspath(environ["ANACONDA_DIR"]),)
    exe = environ.get("CONDA_EXE", "")
    named = [os.path.dirname(os.path.dirname(exe))] if os.path.isabs(exe) else []
    return tuple(dict.fromkeys([*named, *(os.path.join(home, name) for name in ROOT_NAMES)]))


def _by_python(python: str, origin: str, environ: Mapping[str, str], home: str) -> PythonEnvironment:
    if not os.path.isabs(python):
        raise ConfigError(
            f"{origin} {python}: expected the absolute path of a python, for example /opt/env/bin/python"
        )
    if not _is_executable(python):
        what = "is not executable" if os.path.exists(python) else "does not exist"
        raise ConfigError(listed(f"{origin} {python} {what}", [existing_environments(environ, home)]))
    prefix = os.path.dirname(os.path.dirname(os.path.normpath(python)))
    if not os.path.isdir(os.path.join(prefix, "conda-meta")):
        return PythonEnvironment(python, None, None, origin)
    root = _root_of(prefix, _conda_roots(environ, home))
    return PythonEnvironment(python, prefix, _name_of(prefix, root), origin, root)


def _by_name(name: str, origin: str, environ: Mapping[str, str], home: str) -> PythonEnvironment:
    roots = _conda_roots(environ, home)
    looked_for = [os.path.abspath(name)] if os.sep in name else _prefixes(name, roots, environ, home)
    for prefix in looked_for:
        python = os.path.join(prefix, "bin", "python")
        if _is_executable(python):
            root = _root_of(prefix, roots)
            return PythonEnvironment(python, prefix, _name_of(prefix, root), origin, root)
    raise ConfigError(
        listed(
            f"{origin}: no such environment",
            [
                "looked for bin/python in " + ", ".join(looked_for),
                existing_environments(environ, home),
                "name one of these, or set ANACONDA_DIR to the directory that conda is installed in",
            ],
        )
    )


def _prefixes(name: str, roots: Iterable[str], environ: Mapping[str, str], home: str) -> list[str]:
    """Returns the directories that an environment of this name may have."""
    # `base` is the installation itself, not a directory under `envs`.
    if name in ("base", "root"):
        return list(roots)
    places = [place for root in roots for place in conda_settings(root, environ, home).envs_dirs]
    return [os.path.join(place, name) for place in dict.fromkeys(places)]


def _root_of(prefix: str, roots: Iterable[str]) -> str | None:
    """Returns the installation with `bin/conda`: around `envs`, the prefix itself, or one of `roots`."""
    parent = os.path.dirname(prefix)
    around = [os.path.dirname(parent)] if os.path.basename(parent) == "envs" else []
    for root in (*around, prefix, *roots):
        if os.path.isfile(os.path.join(root, "bin", "conda")):
            return root
    return None


def _name_of(prefix: str, root: str | None) -> str:
    """Returns the name that conda shows: that of a directory under `envs`, `base`, or else the path."""
    if prefix == root:
        return "base"
    if os.path.basename(os.path.dirname(prefix)) == "envs":
        return os.path.basename(prefix)
    return "base" if root is None and os.path.isdir(os.path.join(prefix, "envs")) else prefix


def existing_environments(environ: Mapping[str, str], home: str) -> str:
    """Lists the conda environments that exist, as a phrase for messages."""
    roots = _conda_roots(environ, home)
    # By the installation, or by a directory outside of all installations.
    names: dict[str, list[str]] = {}
    for root in roots:
        base = ["base"] if _is_executable(os.path.join(root, "bin", "python")) else []
        names[root] = base + _environments_in(os.path.join(root, "envs"))
        for place in conda_settings(root, environ, home).envs_dirs:
            if place not in [os.path.join(other, "envs") for other in roots]:
                names[place] = _environments_in(place)
    phrases = [f"{', '.join(known)} in {place}" for place, known in names.items() if known]
    return "environments that exist: " + ("; ".join(phrases) or "none in " + ", ".join(roots))


def _environments_in(place: str) -> list[str]:
    if not os.path.isdir(place):
        return []
    return [
        name
        for name in sorted(os.listdir(place))
        if _is_executable(os.path.join(place, name, "bin", "python"))
    ]


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


class CondaSettings(NamedTuple):
    """Directories of named environments in conda's order, and its setting for names of variables."""

    envs_dirs: tuple[str, ...]
    envvars_force_uppercase: bool = True


def conda_settings(root: str | None, environ: Mapping[str, str], home: str) -> CondaSettings:
    """Reads the settings of the installation in `root`, from its files, the user's and `CONDA_*` variables.

    Raises `ConfigError` for a file that is not the YAML of a mapping.
    """
    documents = [_read(file) for file in _files(root, environ, home)]
    merged: dict[str, object] = {}
    for document in documents:
        merged.update(document)
    upper = environ.get("CONDA_ENVVARS_FORCE_UPPERCASE") or merged.get("envvars_force_uppercase", True)
    configured: list[str] = []
    for name in ("CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"):
        configured += [entry for entry in environ.get(name, "").split(os.pathsep) if entry]
    for document in reversed(documents):
        entries = document.get("envs_dirs", document.get("envs_path"))
        configured += [str(entry) for entry in entries] if isinstance(entries, list) else []
    own = [os.path.join(root, "envs")] if root else []
    users = ["~/.conda/envs"]
    places = [*configured, *(own + users if root and _writable(root) else users + own)]
    return CondaSettings(
        tuple(dict.fromkeys(_expanded(place, environ, home) for place in places)),
        str(upper).lower() not in _FALSE,
    )


def _files(root: str | None, environ: Mapping[str, str], home: str) -> Iterator[Path]:
    variables = {**environ, **({"CONDA_ROOT": root} if root else {})}
    for directory in (*_DIRECTORIES, "~", "$CONDA_PREFIX"):
        place = _expanded(directory, variables, home)
        if "$" in place:
            # A variable is not set.
            continue
        names = (".condarc",) if directory == "~" else (".condarc", "condarc")
        yield from (Path(place, name) for name in names if os.path.isfile(os.path.join(place, name)))
        if directory != "~":
            drop_ins = sorted(Path(place, "condarc.d").glob("*"))
            yield from (file for file in drop_ins if file.suffix in (".yml", ".yaml"))
    if os.path.isfile(environ.get("CONDARC", "")):
        yield Path(environ["CONDARC"])


def _read(file: Path) -> dict[str, object]:
    # Slow to import, and few images have such a file.
    import yaml

    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{file}: expected YAML, found: {error}") from error
    if not isinstance(document, dict):
        if document is None:
            return {}
        raise ConfigError(f"{file}: expected a YAML mapping, found {type(document).__name__}")
    return {str(name): value for name, value in document.items()}


def _writable(root: str) -> bool:
    history = os.path.join(root, "conda-meta", "history")
    return not os.path.exists(history) or os.access(history, os.W_OK)


def _expanded(path: str, environ: Mapping[str, str], home: str) -> str:
    def value(match: re.Match[str]) -> str:
        return environ.get(match.group(1) or match.group(2)) or match.group(0)

    expanded = re.sub(r"\$(?:(\w+)|\{(\w+)\})", value, path)
    if expanded == "~" or expanded.startswith("~/"):
        expanded = home + expanded[1:]
    return os.path.abspath(expanded)


# Conda's mark for a variable that is not configured.
_UNSET_BY_CONDA = "***unset***"
_IDENTIFIER = r"[A-Za-z_][A-Za-z_0-9]*\Z"


class Activation(NamedTuple):
    """Scripts to source, the changes of variables after them, and scripts to source after the changes."""

    before: tuple[str, ...]
    patch: Patch
    after: tuple[str, ...]


def plan_activation(selected: PythonEnvironment, environ: Mapping[str, str], home: str) -> Activation:
    """Computes the effect of conda's shell hook and `conda activate` in `environ`, with ma_boot's additions.

    It follows conda/activate.py of conda 26, without the parts for an interactive shell: the prompt, and the
    variables that a later `conda deactivate` needs.

    ma_boot removes `PYTHONHOME` and the `VIRTUAL_ENV` of another environment, from which the training would
    import packages, and puts the environment's `lib` first in `LD_LIBRARY_PATH`, as develop-modelarts-1416
    recommends. For a python outside of conda its directory is put first in `PATH`. Raises `ConfigError` for a
    file of the conda environment or of conda's settings that cannot be read.
    """
    changes: dict[str, str | None] = {"PYTHONHOME": None}
    # The training would import packages of another virtual environment.
    if environ.get("VIRTUAL_ENV") != (selected.prefix or os.path.dirname(os.path.dirname(selected.python))):
        changes["VIRTUAL_ENV"] = None
    path = environ.get("PATH", "")
    if selected.prefix is None:
        # The first python on PATH needs no change of it.
        kept = selected.origin == "PATH"
        changes["PATH"] = path if kept else put_first(os.path.dirname(selected.python), path)
        return Activation((), changes, ())
    level, old = _level(environ), environ.get("CONDA_PREFIX")
    # Conda deactivates in the reverse order of the activation.
    before = _scripts(old, "deactivate.d")[::-1] if old and level else ()
    changes.update(_conda_variables(selected, environ, home))
    changes["PATH"] = changes.get("PATH") or _conda_path(selected, environ)
    libraries = changes.get("LD_LIBRARY_PATH") or environ.get("LD_LIBRARY_PATH", "")
    changes["LD_LIBRARY_PATH"] = put_first(os.path.join(selected.prefix, "lib"), libraries)
    return Activation(before, changes, _scripts(selected.prefix, "activate.d"))


def _conda_variables(
    selected: PythonEnvironment, environ: Mapping[str, str], home: str
) -> dict[str, str | None]:
    prefix, level, old = str(selected.prefix), _level(environ), environ.get("CONDA_PREFIX")
    again = level > 0 and old == prefix
    changes: dict[str, str] = {"CONDA_SHLVL": str(level if again else level + 1)}
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
    """Returns PATH with the environment first, or in the place of the active one, and normalized entries."""
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
        # The new environment takes the place of the active one, as in conda's `_replace_prefix_in_path`.
        first = same[0] if same else 0
        entries[first : first + 1 if same else first] = [new]
        return os.pathsep.join(entries)
    has_condabin = any(entry.endswith("condabin") for entry in entries)
    if selected.root is not None and not ("CONDA_SHLVL" in environ and has_condabin):
        entries.insert(0, os.path.join(selected.root, "condabin"))
    return os.pathsep.join([new, *entries])


def _own_variables(prefix: str) -> dict[str, str]:
    """Reads the variables of the environment's packages, then those of `conda env config vars set`."""
    variables: dict[str, str] = {}
    directory = os.path.join(prefix, "etc", "conda", "env_vars.d")
    for file in sorted(entry.path for entry in os.scandir(directory)) if os.path.isdir(directory) else []:
        variables.update(_variables(_read_json(file), file))
    state = os.path.join(prefix, "conda-meta", "state")
    if os.path.exists(state):
        variables.update(_variables(_read_json(state).get("env_vars", {}), state))
    # Conda ignores it, with a warning.
    variables.pop("PATH", None)
    return {name: value for name, value in variables.items() if value != _UNSET_BY_CONDA}


def _read_json(file: str) -> dict[str, object]:
    try:
        with open(file, encoding="utf-8") as opened:
            document = json.load(opened)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: expected JSON written by conda, found: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected a JSON object, found {type(document).__name__}")
    return document


def _variables(document: object, file: str) -> dict[str, str]:
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: expected variables as a JSON object, found {type(document).__name__}")
    return {str(name): "" if value is None else str(value) for name, value in document.items()}


def _scripts(prefix: str, directory: str) -> tuple[str, ...]:
    """Returns the scripts of a directory by name; like conda, it includes anything with the ending `.sh`."""
    place = os.path.join(prefix, "etc", "conda", directory)
    try:
        scripts: list[str] = [entry.path for entry in os.scandir(place) if entry.name.endswith(".sh")]
    except OSError:
        return ()
    return tuple(sorted(scripts))
