"""Environment phase: the training's environment, and the setup that runs once before the processes.

The order is that of ModelArts' own launcher for its preset engines: packages, `ma-pre-start`, custom
operators.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Callable, NamedTuple

from ma_boot.errors import CommandNotFound, ConfigError
from ma_boot.node.boot.boot_state import Boot
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.request import without_own
from ma_boot.node.environment.command import find_command, find_file, find_program
from ma_boot.node.environment.command_words import TrainingCommand
from ma_boot.node.environment.patch import applied
from ma_boot.node.environment.shell import drop_long_variables, environment_after
from ma_boot.node.environment.software import read_software
from ma_boot.node.environment.training_environment import (
    TrainingEnvironment,
    prepare_packages,
    select_environment,
)
from ma_boot.node.transfers.mapping import configured_store, inputs_of
from ma_boot.node.transfers.transfer_errors import to_boot_error
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.processes.children import run_child
from ma_boot.redact import remember_secrets
from path_mapping.errors import PathMappingError

if TYPE_CHECKING:
    from path_mapping.mapping.routes import Route
    from path_mapping.stores.store import Store

PRE_START = ("ma-pre-start.sh", "ma-pre-start.py")
OPERATOR = "MA_ALGORITHM_OPERATOR"


def check_command(
    command: TrainingCommand,
    training: TrainingEnvironment,
    cwd: str,
    job: JobEnvironment,
    inputs: Sequence[Route],
    by_mpi: bool,
) -> TrainingCommand | None:
    """Returns the command of the training; None if an input contains it and has to be downloaded first.

    A missing command, or a missing `mpirun` with `by_mpi`, is thus reported before hours of download.

    Raises `CommandNotFound`, `NotExecutable` or `UsageError`.
    """
    if by_mpi:
        find_program("mpirun", training.environ.get("PATH", ""))
    try:
        return training_command(command, training, cwd, job)
    except CommandNotFound:
        brought = [os.path.normpath(os.path.join(cwd, route.local)) for route in inputs]
        script = os.path.normpath(
            os.path.join(cwd, command.script.name if command.script else command.words[0])
        )
        if not any(script == local or script.startswith(local + os.sep) for local in brought):
            raise
        return None


def training_command(
    command: TrainingCommand, training: TrainingEnvironment, cwd: str, job: JobEnvironment
) -> TrainingCommand:
    """Returns the command of the training.

    Raises `CommandNotFound`, `NotExecutable` or `UsageError`.
    """
    return find_command(command, training.python, training.environ.get("PATH", ""), cwd, job.job_dir)


def pip_command(python: str, file: str, environ: Mapping[str, str]) -> list[str]:
    """Returns `pip install -r FILE` with the platform's index: its containers have no Internet access.

    An index that the user has configured for pip takes precedence.
    """
    argv = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r", file]
    url, host = environ.get("MA_PIP_URL"), environ.get("MA_PIP_HOST")
    if url and not environ.get("PIP_INDEX_URL"):
        argv += ["--index-url", url, *(["--trusted-host", host] if host else [])]
    return argv


class NodeSetup(NamedTuple):
    """Setup that runs once on a node before its processes; its programs print to standard error.

    Every method raises `ConfigError` for a program that fails, and `Stopped`.
    """

    context: ProcessContext
    job: JobEnvironment

    def install_packages(self, requirements: str, training: TrainingEnvironment) -> TrainingEnvironment:
        """Installs a requirements file into the training's environment.

        Where this user may not write to it, into a directory of the job that the training's Python searches.
        """
        try:
            file = find_file(requirements, self.context.cwd, self.job.job_dir)
        except CommandNotFound as error:
            raise ConfigError(f"--requirements {error}") from error

        python, training = prepare_packages(
            training, self.job.home, self.context.inbox, self._reminder(training.python)
        )
        argv = pip_command(python, file, self.context.environ)
        self.context.journal.say(f"installing {file} into the environment of {python}")
        self._run(argv, f"pip could not install {file}", training, os.path.dirname(file))
        return training

    def run_pre_start(self, beside: str | None, training: TrainingEnvironment) -> TrainingEnvironment:
        """Runs `ma-pre-start.sh` and `.py` in the directory `beside` of the training script, if there is one.

        Returns the environment with the exports of the shell script.
        """
        if beside is None:
            return training
        for file in (os.path.join(beside, name) for name in PRE_START):
            if not os.path.isfile(file):
                continue
            self.context.journal.say(f"running {file} before the training")
            if file.endswith(".py"):
                self._run([training.python, file], f"{file} failed", training, beside)
                continue
            code, patch = environment_after(
                file, training.environ, self.context.inbox, self._reminder(file), beside
            )
            _check(code, f"{file} failed")
            training = training._replace(
                environ=drop_long_variables(applied(training.environ, patch), self.context.journal.say)
            )
        return training

    def install_operators(
        self, training: TrainingEnvironment, open_store: Callable[[], Store]
    ) -> TrainingEnvironment:
        """Downloads the job's custom CANN operators from OBS and runs their installer, if the job has any.

        Like ModelArts' launcher (davincirun, `OpManager`). Raises a `BootError` for a failed download.
        """
        text = self.context.environ.get(OPERATOR, "").strip() or "{}"
        try:
            document = json.loads(text)
            url = document.get("obs", {}).get("obs_url")
        except (ValueError, AttributeError) as error:
            raise ConfigError(
                f"{OPERATOR}: found {text!r}, expected a JSON object with obs.obs_url"
            ) from error
        if url is None:
            return training

        with tempfile.TemporaryDirectory(prefix="operator_info-") as directory:
            _fetch(str(url), directory, open_store())
            installers = sorted(Path(directory).rglob("*.run"))
            if not installers:
                raise ConfigError(f"{OPERATOR}: there is no .run file in {url}")
            self.context.journal.say(f"installing the operators of {installers[0].name}")
            # OBS does not store permissions.
            installers[0].chmod(0o700)
            self._run([str(installers[0])], f"{installers[0].name} failed", training, directory)
        more: dict[str, str] = {"SLOG_PRINT_TO_STDOUT": "1"} if document.get("ide_mode") else {}
        return training._replace(environ={**training.environ, **more})

    def _run(self, argv: Sequence[str], failure: str, training: TrainingEnvironment, cwd: str) -> None:
        reminder = self._reminder(argv[0])
        _check(run_child(argv, training.environ, self.context.inbox, reminder, cwd=cwd, stdout=2), failure)

    def _reminder(self, program: str) -> Callable[[], None]:
        return lambda: self.context.journal.say(f"{program} is still running")


def _check(code: int, failure: str) -> None:
    if code != 0:
        raise ConfigError(f"{failure}: exit code {code}; its output is above")


def _fetch(url: str, directory: str, store: Store) -> None:
    from path_mapping.mapping.routes import ObsUrl, Route
    from path_mapping.transfer.transfer import download
    from path_mapping.workers.retry import RetriedStore

    # The platform writes /bucket/key as well as obs://bucket/key.
    written = url if "://" in url else "obs:/" + url
    try:
        source = ObsUrl.typed(written)
        is_file = source.key and not source.key.endswith("/")
        target = os.path.join(directory, os.path.basename(source.key)) if is_file else directory
        routes = [Route(target, source)]
        download(routes, Path("/"), RetriedStore(store))
    except ValueError as error:
        raise ConfigError(f"{OPERATOR}: {error}") from error
    except PathMappingError as error:
        raise to_boot_error(error) from error


def selected_environment(boot: Boot) -> TrainingEnvironment:
    """Returns the environment that the options select. Raises `ConfigError` and `Stopped`."""
    options, root, context = boot.request.environment, boot.request.transfers.obs_root, boot.context
    environ = without_own(context.environ)
    # `path_mapping.file` in the training reads the same store as ma_boot.
    if root is not None:
        environ["PATH_MAPPING_OBS_ROOT"] = os.path.join(context.cwd, root)
    training = select_environment(
        options.python,
        options.conda_env,
        options.source,
        environ=environ,
        home=boot.job.home,
        inbox=context.inbox,
        say=context.journal.say,
        cwd=context.cwd,
        job_dir=boot.job.job_dir,
    )
    remember_secrets(training.environ)
    return training


def set_up(boot: Boot, training: TrainingEnvironment) -> TrainingEnvironment:
    """Returns the training's environment, after the setup that runs once before its processes."""
    request, context, job = boot.request, boot.context, boot.job
    command = check_command(
        request.command,
        training,
        context.cwd,
        job=job,
        inputs=inputs_of(boot.transfers),
        by_mpi=request.launch.rendezvous == "mpi",
    )
    setup = NodeSetup(context, job)
    if request.environment.requirements is not None:
        training = setup.install_packages(request.environment.requirements, training)
    training = setup.run_pre_start(command.code if command else None, training)
    remember_secrets(training.environ)
    training = setup.install_operators(
        training, lambda: configured_store(request.transfers, context.environ, context.cwd)
    )
    versions = read_software(training.python, job.job_dir)
    boot.journal.event("software", versions=versions)
    return training
