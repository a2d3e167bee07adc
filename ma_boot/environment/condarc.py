"""Reads the settings of conda that decide what an activation does."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ma_boot.errors import ConfigError

# conda/base/constants.py, SEARCH_PATH: a later file takes precedence.
_DIRECTORIES = (
    "/etc/conda", "/var/lib/conda", "$CONDA_ROOT", "$XDG_CONFIG_HOME/conda", "~/.config/conda", "~/.conda",
)  # fmt: skip
_FALSE = {"false", "no", "off", "0", "n", ""}
_ENV_PROMPT = "({default_env}) "


class CondaSettings(NamedTuple):
    """The settings of the same names, and where conda looks for a named environment, in order."""

    envs_dirs: Tuple[str, ...]
    changeps1: bool = True
    env_prompt: str = _ENV_PROMPT
    envvars_force_uppercase: bool = True


def conda_settings(root: Optional[str], environ: Mapping[str, str], home: str) -> CondaSettings:
    """The settings of the installation in `root`, from its files, the user's and `CONDA_*` variables.

    Raises:
        ConfigError: a file is not the YAML of a mapping.
    """
    documents = [_read(file) for file in _files(root, environ, home)]
    merged: Dict[str, object] = {}
    for document in documents:
        merged.update(document)
    for name in ("changeps1", "env_prompt", "envvars_force_uppercase"):
        if environ.get(f"CONDA_{name.upper()}"):
            merged[name] = environ[f"CONDA_{name.upper()}"]
    configured: List[str] = []
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
        str(merged.get("changeps1", True)).lower() not in _FALSE,
        str(merged.get("env_prompt", _ENV_PROMPT)),
        str(merged.get("envvars_force_uppercase", True)).lower() not in _FALSE,
    )


def _files(root: Optional[str], environ: Mapping[str, str], home: str) -> Iterator[Path]:
    variables = {**environ, **({"CONDA_ROOT": root} if root else {})}
    for directory in (*_DIRECTORIES, "~", "$CONDA_PREFIX"):
        place = _expanded(directory, variables, home)
        if "$" in place:  # a variable that is not set
            continue
        names = (".condarc",) if directory == "~" else (".condarc", "condarc")
        yield from (Path(place, name) for name in names if os.path.isfile(os.path.join(place, name)))
        if directory != "~":
            drop_ins = sorted(Path(place, "condarc.d").glob("*"))
            yield from (file for file in drop_ins if file.suffix in (".yml", ".yaml"))
    if os.path.isfile(environ.get("CONDARC", "")):
        yield Path(environ["CONDARC"])


def _read(file: Path) -> Dict[str, object]:
    import yaml  # slow to import, and few images have such a file

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
