"""The job phase: what is checked and reported before anything is done for the job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Mapping

from ma_boot.errors import CannotCreate, ConfigError, listed
from ma_boot.modelarts import JobEnvironment, failed, read_channels
from ma_boot.node.world import Say
from ma_boot.processes import swallowing_shell
from ma_boot.redact import secret_values, without_secrets
from ma_boot.reporting import keep_earlier


def set_failure_aside(job: JobEnvironment) -> None:
    """Renames the failure file of an earlier start: from now on a file of that name is this start's.

    Raises `CannotCreate`.
    """
    try:
        keep_earlier(Path(job.failure_file))
    except OSError as error:
        raise CannotCreate(f"cannot rename {job.failure_file}: {error.strerror}") from error


def report_shell(environ: Mapping[str, str], job: JobEnvironment, say: Say) -> None:
    """Prints a warning if a shell keeps the platform's stop signal from this process."""
    shell = swallowing_shell()
    if shell is None or not (
        job.platform_name or os.getppid() == 1
    ):  # in a terminal, people stop it by Ctrl-C
        return
    shown = without_secrets(shell, secret_values(environ))
    say(
        f"a stop of the job will not reach ma_boot, so no outputs would be uploaded: the shell above it, "
        f"`{shown[:120]}`, passes no signal on; let `exec ma_boot ...` be its last command"
    )


def check_container(environ: Mapping[str, str], hostname: str, job: JobEnvironment, say: Say) -> None:
    """Runs the quick checks of `ma_boot doctor` (`--preflight`) and prints their warnings.

    Raises `ConfigError` with all errors that they found.
    """
    from ma_boot.doctor import System, quick_findings  # only for jobs that ask for it

    findings = quick_findings(System(environ, hostname), job)
    for finding in findings:
        if finding.severity == "warning":
            say(f"preflight: {finding.check}: {finding.evidence}; {finding.remedy}")
    problems = [f"{one.check}: {one.evidence}; {one.remedy}" for one in failed(findings)]
    if problems:
        raise ConfigError(listed("this container cannot run the job (see ma_boot doctor):", problems))


def report_channels(environ: Mapping[str, str], say: Say) -> None:
    """Prints what is wrong with the job form's inputs and outputs."""
    channels, problems = read_channels(environ)
    for problem in problems:
        say(problem)
    for channel in channels:
        if channel.kind == "inputs" and not os.path.exists(channel.local_dir):
            say(f"the job's input {channel.name} does not exist: {channel.local_dir} ({channel.url})")
