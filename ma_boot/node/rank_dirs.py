"""A directory of its own for each rank: made anew, with code and the environment in it."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path
from typing import List, Sequence, Tuple

from ma_boot.errors import CannotCreate, ConfigError
from ma_boot.launch import LaunchPlan, WorkerSpec
from ma_boot.redact import masked
from path_mapping.mapping import PathMapping

ENVIRONMENT_FILE = "env.log"


def code_to_copy(globs: Sequence[str], argv: Sequence[str], cwd: str) -> Tuple[Tuple[str, str], ...]:
    """What `--copy-code` names, each with its place in a rank's directory.

    The globs start where the script of the command is, or else in the working directory; a match in there
    keeps its place, one from outside (`../src`) keeps its name. Raises `ConfigError` for a glob without a
    match.
    """
    scripts = [word for word in argv[1:2] if os.path.isabs(word)]
    start = os.path.dirname(scripts[0]) if scripts else cwd
    found: List[Tuple[str, str]] = []
    for pattern in globs:
        matches = sorted(glob.glob(os.path.join(start, pattern)))
        if not matches:
            raise ConfigError(f"--copy-code {pattern}: nothing in {start} has such a name")
        for match in map(os.path.normpath, matches):
            inside = match.startswith(os.path.join(start, ""))
            found.append((match, os.path.relpath(match, start) if inside else os.path.basename(match)))
    return tuple(found)


def make_rank_dirs(plan: LaunchPlan, mapping: PathMapping) -> None:
    """Makes the directories anew; what an earlier start left in them goes.

    Raises `CannotCreate`, and `ConfigError` where an input of the mapping lies in one: it would go as well.
    """
    for worker in plan.workers:
        if worker.fresh_cwd:
            _refuse_inputs(worker, mapping)
            try:
                _make(Path(worker.cwd), plan.copied, worker)
            except OSError as error:
                raise CannotCreate(
                    f"cannot make {worker.label}'s directory {worker.cwd}: {error.strerror}: {error.filename}"
                ) from error


def _refuse_inputs(worker: WorkerSpec, mapping: PathMapping) -> None:
    parent = os.path.dirname(worker.cwd)
    for route in mapping.inputs:
        local = os.path.normpath(os.path.join(parent, route.local))
        if (local + os.sep).startswith(worker.cwd + os.sep):
            raise ConfigError(
                f"the input {route.local} lies in {worker.cwd}, which --workdir per-rank makes anew: "
                "choose another place for it"
            )


def _make(place: Path, copied: Sequence[Tuple[str, str]], worker: WorkerSpec) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif place.is_symlink() or place.exists():
        place.unlink()
    place.mkdir(parents=True)
    for source, name in copied:
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.isdir(source):
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    lines = (f"{name}={value}\n" for name, value in sorted(masked(worker.environ).items()))
    (place / ENVIRONMENT_FILE).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
