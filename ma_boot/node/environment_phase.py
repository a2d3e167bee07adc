"""What a job asks to have done once on each node before its processes: packages, a script, CANN operators.

ModelArts' own launcher does these for its preset engines, in this order of its log.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ma_boot.environment import TrainingEnvironment, applied, environment_after, find_file
from ma_boot.errors import CommandNotFound, ConfigError
from ma_boot.modelarts import JobEnvironment
from ma_boot.node.request import BootRequest
from ma_boot.node.transfers import as_ours, store_of
from ma_boot.node.world import World
from ma_boot.processes import run_child
from path_mapping import errors as mapping_errors

PRE_START = ("ma-pre-start.sh", "ma-pre-start.py")
OPERATOR = "MA_ALGORITHM_OPERATOR"


def set_up(
    request: BootRequest, world: World, job: JobEnvironment, training: TrainingEnvironment
) -> TrainingEnvironment:
    """Does all of it, and returns the environment with what the script has exported.

    The script, `ma-pre-start.sh` or `.py`, lies beside the training's own. What the programs print goes to
    standard error. Raises `ConfigError` where one of them fails, and `Stopped`.
    """
    if request.requirements is not None:
        _install(request.requirements, world, job, training)
    training = _pre_start(request, world, job, training)
    if world.environ.get(OPERATOR, "").strip():
        return _with_operators(request, world, training)
    return training


def pip_command(python: str, file: str, environ: Mapping[str, str]) -> List[str]:
    """`pip install -r FILE`, from the index that the platform names: a container has no Internet.

    An index that the user has set for pip stays.
    """
    argv = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r", file]
    url, host = environ.get("MA_PIP_URL"), environ.get("MA_PIP_HOST")
    if url and not environ.get("PIP_INDEX_URL"):
        argv += ["--index-url", url, *(["--trusted-host", host] if host else [])]
    return argv


def _install(name: str, world: World, job: JobEnvironment, training: TrainingEnvironment) -> None:
    try:
        file = find_file(name, world.cwd, job.job_dir)
    except CommandNotFound as error:
        raise ConfigError(f"--requirements {error}") from error
    argv = pip_command(training.python, file, world.environ)
    world.journal.say(f"installing {file} into the environment of {training.python}")
    _run(argv, f"pip could not install {file}", world, training.environ, os.path.dirname(file))


def _pre_start(
    request: BootRequest, world: World, job: JobEnvironment, training: TrainingEnvironment
) -> TrainingEnvironment:
    first = request.command[0]
    if not first.endswith((".py", ".sh")):
        return training
    try:
        beside = os.path.dirname(find_file(first, world.cwd, job.job_dir))
    except CommandNotFound:  # an input will bring it
        return training
    for file in (os.path.join(beside, name) for name in PRE_START):
        if not os.path.isfile(file):
            continue
        world.journal.say(f"{file} runs before the training")
        if file.endswith(".py"):
            _run([training.python, file], f"{file} failed", world, training.environ, beside)
            continue
        code, patch = environment_after(file, training.environ, world.inbox, _remind(world, file), beside)
        if code != 0:
            raise ConfigError(f"{file} failed: it ended with exit code {code}; what it printed is above")
        training = replace(training, environ=applied(training.environ, patch))
    return training


def _with_operators(request: BootRequest, world: World, training: TrainingEnvironment) -> TrainingEnvironment:
    """Fetches the package of custom operators from OBS and runs its installer, as davincirun's OpManager."""
    url, ide_mode = _operator(world.environ[OPERATOR])
    if url is None:
        return training
    with tempfile.TemporaryDirectory(prefix="operator_info-") as directory:
        _fetch(url, directory, request, world)
        installers = sorted(Path(directory).rglob("*.run"))
        if not installers:
            raise ConfigError(f"{OPERATOR}: there is no .run file in {url}")
        world.journal.say(f"installing the operators of {installers[0].name}")
        installers[0].chmod(0o700)  # OBS keeps no x bit
        _run([str(installers[0])], f"{installers[0].name} failed", world, training.environ, directory)
    more: Dict[str, str] = {"SLOG_PRINT_TO_STDOUT": "1"} if ide_mode else {}
    return replace(training, environ={**training.environ, **more})


def _operator(text: str) -> Tuple[Optional[str], bool]:
    try:
        document = json.loads(text)
        url = document.get("obs", {}).get("obs_url")
        return (None if url is None else str(url)), bool(document.get("ide_mode"))
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"{OPERATOR}: found {text!r}, expected a JSON object with obs.obs_url") from error


def _fetch(url: str, directory: str, request: BootRequest, world: World) -> None:
    from path_mapping.mapping import ObsUrl, Route  # few jobs have operators of their own
    from path_mapping.transfer import download

    written = url if "://" in url else "obs:/" + url  # the platform writes /bucket/key as well
    try:
        whole = ObsUrl.parse(written)
        is_file = whole.key and not whole.key.endswith("/")
        target = os.path.join(directory, os.path.basename(whole.key)) if is_file else directory
        store = store_of(world.environ, world.cwd, request.obs_root, request.stall_timeout)
        routes = [Route(target, whole)]
        download(routes, Path("/"), store, cancel=threading.Event(), progress=lambda now: None)
    except ValueError as error:
        raise ConfigError(f"{OPERATOR}: {error}") from error
    except mapping_errors.PathMappingError as error:
        raise as_ours(error) from error


def _run(argv: Sequence[str], what: str, world: World, environ: Mapping[str, str], cwd: str) -> None:
    code = run_child(argv, environ, world.inbox, _remind(world, argv[0]), cwd=cwd, stdout=2)
    if code != 0:
        raise ConfigError(f"{what}: it ended with exit code {code}; what it printed is above")


def _remind(world: World, what: str) -> Callable[[], None]:
    return lambda: world.journal.say(f"{what} is still at work")
