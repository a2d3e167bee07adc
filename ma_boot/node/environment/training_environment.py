"""Selects, activates and sources the environment of the training processes."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Callable, NamedTuple

import ma_boot
from ma_boot.errors import CommandNotFound, ConfigError
from ma_boot.node.environment.command import find_file
from ma_boot.node.environment.conda import (
    Activation,
    PythonEnvironment,
    find_environment,
    find_on_path,
    first_python,
    plan_activation,
)
from ma_boot.node.environment.patch import put_first, without
from ma_boot.node.environment.shell import drop_long_variables, environment_in_shell
from ma_boot.processes.children import run_child
from ma_boot.processes.signals import SignalInbox

PACKAGE_DIR = os.path.dirname(os.path.abspath(ma_boot.__file__))
# The only directory of ma_boot on the training's path.
FOR_TRAINING = os.path.join(PACKAGE_DIR, "for_training")
_NO_ENVIRONMENT = Activation((), {"PYTHONHOME": None, "VIRTUAL_ENV": None}, ())

# Bytes of a file to source in which Windows line ends are searched for.
_CHECKED_BYTES = 65536
FRAMEWORKS = ("torch", "mindspore", "tensorflow", "jax", "paddle")
# Program for the training's python of any version. If its packages cannot be written, it creates an
# environment that sees them by a `.pth` file: pip does not install them again there, nor removes them.
_OVERLAY = """
import os, sys, sysconfig
packages = sysconfig.get_path("purelib")
if os.access(packages, os.W_OK):
    sys.exit(0)
import venv
venv.create(sys.argv[1], symlinks=True, with_pip=False)
seen = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
name = "python%d.%d" % sys.version_info[:2]
with open(os.path.join(sys.argv[1], "lib", name, "site-packages", "_training.pth"), "w") as file:
    file.write("\\n".join(seen) + "\\n")
"""


class TrainingEnvironment(NamedTuple):
    """Python that runs the training, and the environment on which that of each process is based."""

    python: str
    environ: Mapping[str, str]
    origin: str


def select_environment(
    python: str | None,
    conda_env: str | None,
    sources: Sequence[str],
    environ: Mapping[str, str],
    home: str,
    inbox: SignalInbox,
    say: Callable[[str], None],
    *,
    cwd: str,
    job_dir: str,
) -> TrainingEnvironment:
    """Returns the environment after `conda activate` and `source FILE...`, with the python in use then.

    ma_boot's own virtual environment is not taken for the training's (`outside_of`). Relative files are
    searched for in `cwd` and in the job's code. `--python` is final; otherwise a file that activates another
    environment selects its python, as in a shell. A shim of pyenv is replaced by the python that it starts.
    Raises `ConfigError` if the environment or a file cannot be used, and `Stopped`.
    """
    files = [_source_file(name, cwd, job_dir) for name in sources]
    outside = outside_of(own_prefix(), environ)
    environ = outside.environ
    chosen = python or conda_env or environ.get("DEFAULT_CONDA_ENV_NAME")
    before: PythonEnvironment | None = None
    if chosen or not files or find_on_path(environ, home, "PATH"):
        before = find_environment(python, conda_env, environ, home)
    steps = plan_activation(before, environ, home) if before else _NO_ENVIRONMENT
    activated, after = environment_in_shell(steps, files, environ, inbox, say)
    selected, ordered = _in_use(before, activated, after, home)
    ordered = drop_long_variables(ordered, say)
    ordered["PYTHONUNBUFFERED"] = "1"
    ordered["PYTHONPATH"] = _training_path(ordered.get("PYTHONPATH", ""))
    origin = outside.origin_of(selected)
    if os.path.basename(os.path.dirname(selected.python)) != "shims":
        return TrainingEnvironment(selected.python, ordered, origin)
    behind = _behind_shim(selected.python, ordered, cwd, inbox, say)
    return TrainingEnvironment(behind, ordered, f"{behind}, which {origin} starts")


def _behind_shim(
    shim: str, environ: Mapping[str, str], cwd: str, inbox: SignalInbox, say: Callable[[str], None]
) -> str:
    """Returns the python that a shim of pyenv starts, as each start by the shim takes 40 ms more."""
    argv = [shim, "-c", "import sys; print(sys.executable)"]
    with tempfile.TemporaryFile() as output:
        code = run_child(
            argv, environ, inbox, lambda: say(f"{shim} is still running"), cwd=cwd, stdout=output.fileno()
        )
        output.seek(0)
        python = os.fsdecode(output.read()).strip().rpartition("\n")[2]
    if code != 0 or not os.path.isabs(python):
        raise ConfigError(
            f"{shim}: expected the path of a python, found {python!r} and exit code {code}; the rest of its "
            "output is above"
        )
    return python


def _source_file(name: str, cwd: str, job_dir: str) -> str:
    try:
        file = find_file(name, cwd, job_dir)
        with open(file, "rb") as opened:
            windows = b"\r\n" in opened.read(_CHECKED_BYTES)
    except CommandNotFound as error:
        raise ConfigError(f"--source {error}") from error
    except OSError as error:
        raise ConfigError(f"--source {name}: cannot be read: {error.strerror}") from error
    if windows:
        raise ConfigError(
            f"--source {name}: {file} has Windows line ends (CRLF), of which each value would end in a "
            "carriage return: convert it by `sed -i 's/\\r$//' FILE`"
        )
    return file


def _in_use(
    before: PythonEnvironment | None, activated: Mapping[str, str], after: Mapping[str, str], home: str
) -> tuple[PythonEnvironment, dict[str, str]]:
    """Returns the environment that is active after sourcing, and its variables."""
    if before is None:
        without_name = {name: value for name, value in after.items() if name != "DEFAULT_CONDA_ENV_NAME"}
        now = find_on_path(after, home, "--source") or find_environment(None, None, without_name, home)
        return now, dict(after)
    switched = any(activated.get(name) != after.get(name) for name in ("CONDA_PREFIX", "VIRTUAL_ENV"))
    if before.origin != "--python" and (switched or before.origin == "PATH"):
        now = find_on_path(after, home, "--source") or before
        if now.python != before.python:
            return now, _with_libraries(before, now, after)
        if switched:
            return before, dict(after)
    return before, _selected_first(before, activated, after)


def _with_libraries(
    before: PythonEnvironment, now: PythonEnvironment, after: Mapping[str, str]
) -> dict[str, str]:
    """Replaces the libraries of the former environment by those of a conda environment from a file."""
    result = dict(after)
    if now.prefix is not None and now.prefix == after.get("CONDA_PREFIX"):
        former = [os.path.join(before.prefix, "lib")] if before.prefix else []
        kept = os.pathsep.join(without(after.get("LD_LIBRARY_PATH", ""), former))
        result["LD_LIBRARY_PATH"] = put_first(os.path.join(now.prefix, "lib"), kept)
    return result


def _selected_first(
    chosen: PythonEnvironment, activated: Mapping[str, str], after: Mapping[str, str]
) -> dict[str, str]:
    """Moves the activated environment before the entries of a sourced file (CANN's set_env.sh).

    Entries that activation scripts have put before the environment stay there.
    """
    result = dict(after)
    for name, part in (("PATH", "bin"), ("LD_LIBRARY_PATH", "lib")):
        entries = without(activated.get(name, ""), ())
        own = os.path.join(chosen.prefix, part) if chosen.prefix else ""
        if own in entries and activated.get(name) != after.get(name):
            leading = entries[: entries.index(own) + 1]
            result[name] = os.pathsep.join([*leading, *without(after.get(name, ""), leading)])
    return result


def _training_path(pythonpath: str) -> str:
    """Returns the user's PYTHONPATH without the toolkit, and the directory of the modules for training code.

    `for_training` makes `ma_boot` and `path_mapping` importable, and nothing else of the toolkit.
    """
    users = without(pythonpath, {os.path.dirname(PACKAGE_DIR)})
    return os.pathsep.join([*users, FOR_TRAINING])


class Outside(NamedTuple):
    """Variables without ma_boot's own environment; `note` is about the first python on their `PATH`."""

    environ: Mapping[str, str]
    note: str = ""

    def origin_of(self, chosen: PythonEnvironment) -> str:
        """Returns `/usr/bin/python3 by PATH (skipped ma_boot's own python)`, or the like."""
        note = f" ({self.note})" if self.note and chosen.origin == "PATH" else ""
        return f"{chosen.python} by {chosen.origin}{note}"


def own_prefix() -> str | None:
    """Returns the directory of the virtual environment that runs ma_boot, None without one."""
    return sys.prefix if sys.prefix != sys.base_prefix else None


def explain_python(
    python: str | None, conda_env: str | None, environ: Mapping[str, str], home: str
) -> tuple[str, str]:
    """Returns the python that `select_environment` would select without a file to source, and its origin.

    Raises `ConfigError` if there is none.
    """
    outside = outside_of(own_prefix(), environ)
    chosen = find_environment(python, conda_env, outside.environ, home)
    return chosen.python, outside.origin_of(chosen)


def outside_of(prefix: str | None, environ: Mapping[str, str]) -> Outside:
    """Returns the variables of a shell without ma_boot's environment in `prefix` (None: it has none).

    Its `bin` is removed from `PATH`, so that the training, and the scripts that it runs, get the active
    environment's python, or the next one. It stays if the environment has a framework for training, so is the
    user's own, and if there is no other python.
    """
    if prefix is None:
        return Outside(environ)
    own = os.path.realpath(os.path.join(prefix, "bin"))
    entries = [entry for entry in environ.get("PATH", "").split(os.pathsep) if entry]
    others = [entry for entry in entries if os.path.realpath(entry) != own]
    if len(others) == len(entries):
        return Outside(environ)
    first = first_python(environ)
    is_own = first is not None and os.path.realpath(os.path.dirname(first)) == own
    framework = _framework(os.path.join(prefix, "lib"))
    if framework is not None:
        return Outside(environ, f"ma_boot's own environment, which has {framework}" if is_own else "")
    result: dict[str, str] = dict(environ)
    path = os.pathsep.join(others)
    active = _active(prefix, environ)
    if active is not None:
        path = put_first(os.path.join(active, "bin"), path)
    if first_python({"PATH": path}) is None:
        return Outside(environ, "ma_boot's own environment: there is no other python on PATH")
    result["PATH"] = path
    if active != environ.get("VIRTUAL_ENV"):
        result.pop("VIRTUAL_ENV", None)
    return Outside(result, "skipped ma_boot's own python" if is_own else "")


def _framework(lib: str) -> str | None:
    """Returns the framework for training that an environment has below its `lib`."""
    pythons = [name for name in os.listdir(lib) if name.startswith("python3")] if os.path.isdir(lib) else []
    for framework in FRAMEWORKS:
        if any(os.path.exists(os.path.join(lib, python, "site-packages", framework)) for python in pythons):
            return framework
    return None


def _active(prefix: str, environ: Mapping[str, str]) -> str | None:
    """Returns the active environment, if it is another one."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        value = environ.get(name, "")
        is_other = os.path.isabs(value) and os.path.realpath(value) != os.path.realpath(prefix)
        if is_other and os.path.isfile(os.path.join(value, "bin", "python")):
            return value
    return None


def prepare_packages(
    training: TrainingEnvironment, home: str, inbox: SignalInbox, remind: Callable[[], None]
) -> tuple[str, TrainingEnvironment]:
    """Returns the python whose pip installs packages, and the training's environment that sees them.

    Both are the training's own where this user may write to its packages; otherwise packages go to an
    environment below `home`, which comes first on PYTHONPATH. Raises `ConfigError` if neither can be written,
    and `Stopped`.
    """
    place = os.path.join(home, ".ma_boot", "packages")
    code = run_child(
        [training.python, "-c", _OVERLAY, place], training.environ, inbox, remind, cwd=home, stdout=2
    )
    if code != 0:
        raise ConfigError(
            f"uid {os.geteuid()} may not write to the environment of {training.python}, and {place} cannot "
            f"be made: exit code {code}; the output of {training.python} is above"
        )
    python = os.path.join(place, "bin", "python")
    places = sorted(Path(place).glob("lib/python*/site-packages"))
    if not places or not os.path.exists(python):
        return training.python, training
    environ = dict(training.environ)
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(places[-1]), environ.get("PYTHONPATH", "")]))
    environ["PATH"] = os.pathsep.join(filter(None, [environ.get("PATH", ""), os.path.dirname(python)]))
    return python, training._replace(environ=environ)
