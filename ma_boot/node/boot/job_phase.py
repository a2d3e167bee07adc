"""Job phase: checks before any other work, and the contents of the job form's directories at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ma_boot.errors import CannotCreate, ConfigError, OutputLost, listed
from ma_boot.node.boot.options import JobOptions
from ma_boot.node.boot.process_context import Say
from ma_boot.node.transfers.transfer_errors import missing_outputs
from ma_boot.platform.modelarts.findings import failed
from ma_boot.platform.modelarts.job import Channel, ChannelContent, JobEnvironment, read_channels, read_job
from ma_boot.platform.modelarts.surroundings import read_surroundings
from ma_boot.processes.signals import swallowing_shell
from ma_boot.redact import without_secrets
from ma_boot.report.files import keep_earlier
from ma_boot.report.journal import Journal
from ma_boot.wording import Message, ProgressLine

# Seconds; max. time to count the files of all channels. After a stop signal the grace period is for uploads.
COUNT_SECONDS = 5.0
HURRIED_SECONDS = 0.5


def this_job(
    options: JobOptions, environ: Mapping[str, str], hostname: str, say: Say = lambda text: None
) -> JobEnvironment:
    """Returns the job of this node, and prints its platform. Raises `ConfigError`."""
    job = read_job(environ, hostname, options.platform, read_surroundings)
    say(ProgressLine(f"platform: {job.platform}"))
    return job


def set_failure_aside(job: JobEnvironment) -> None:
    """Renames the failure file of an earlier start, so that a file of that name belongs to this start.

    Raises `CannotCreate`.
    """
    try:
        keep_earlier(Path(job.failure_file))
    except OSError as error:
        raise CannotCreate(f"cannot rename {job.failure_file}: {error.strerror}") from error


def report_shell(job: JobEnvironment, warn: Say) -> None:
    """Prints a warning if a shell keeps the platform's stop signal from this process."""
    shell = swallowing_shell()
    # In a terminal Ctrl-C reaches all processes.
    if shell is None or not (job.place.job or os.getppid() == 1):
        return
    warn(
        f"a stop of the job will not reach ma_boot, so no outputs would be uploaded: the shell above it, "
        f"`{without_secrets(shell)[:120]}`, passes no signal on; let `exec ma_boot ...` be its last command"
    )


def check_container(environ: Mapping[str, str], hostname: str, job: JobEnvironment, warn: Say) -> None:
    """Runs the quick checks of `ma_boot doctor` (`--preflight`) and prints their warnings.

    Raises `ConfigError` with all errors that they found.
    """
    # Imported here: most jobs run no checks.
    from ma_boot.node.doctor.container import System
    from ma_boot.node.doctor.examination import quick_findings

    findings = quick_findings(System(environ, hostname), job)
    for finding in findings:
        if finding.severity == "warning":
            warn(f"preflight: {finding.check}: {finding.evidence}; {finding.remedy}")
    problems = [f"{finding.check}: {finding.evidence}; {finding.remedy}" for finding in failed(findings)]
    if problems:
        raise ConfigError(
            listed(Message("this container cannot run the job (see ma_boot doctor):"), problems)
        )


def report_channels(environ: Mapping[str, str], warn: Say) -> None:
    """Prints warnings about invalid or missing inputs and outputs of the job form."""
    channels, problems = read_channels(environ)
    for problem in problems:
        warn(problem)
    for channel in channels:
        if channel.kind == "inputs" and not os.path.exists(channel.local_dir):
            warn(f"the job's input {channel.name} does not exist: {channel.local_dir} ({channel.url})")


def form_channels(environ: Mapping[str, str], journal: Journal, hurry: bool) -> tuple[ChannelContent, ...]:
    """Returns the contents of the inputs and outputs, outputs first; writes an event for each."""
    deadline = time.monotonic() + (HURRIED_SECONDS if hurry else COUNT_SECONDS)
    channels = sorted(read_channels(environ)[0], key=lambda channel: channel.kind == "inputs")
    contents = tuple(channel_content(channel, deadline) for channel in channels)
    for content in contents:
        channel = content.channel
        journal.event(
            "channel", direction=channel.kind[:-1], name=channel.name, local_dir=channel.local_dir,
            url=channel.url, files=content.files, bytes=content.bytes, complete=content.complete,
        )  # fmt: skip
    return contents


def channel_content(channel: Channel, deadline: float) -> ChannelContent:
    """Counts the files of a channel, until the monotonic `deadline` (seconds)."""
    files = size = 0
    top = channel.local_dir
    walk = [(os.path.dirname(top), [""], [os.path.basename(top)])] if os.path.isfile(top) else os.walk(top)
    for place, _, names in walk:
        for name in names:
            if time.monotonic() >= deadline:
                return ChannelContent(channel, files, size, False)
            try:
                size += os.stat(os.path.join(place, name)).st_size
            except OSError:
                # Removed since it was listed, or a dangling link.
                continue
            files += 1
    return ChannelContent(channel, files, size, True)


def empty_outputs(contents: Sequence[ChannelContent], all_expected: bool) -> OutputLost | None:
    """Returns the loss of outputs without any file; None unless files are expected in all of them."""
    empty = [content.channel for content in contents if content.channel.kind == "outputs" and content.empty]
    if not all_expected or not empty:
        return None
    return missing_outputs(
        [f"{channel.local_dir} (the job form's {channel.name}, for {channel.url})" for channel in empty]
    )
