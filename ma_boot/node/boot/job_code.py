"""The code of a job: the directory that a digest covers, and what in it is no code."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from ma_boot.errors import CommandNotFound
from ma_boot.node.boot.boot_state import Boot
from ma_boot.node.environment.code_digest import code_root
from ma_boot.node.environment.command import find_code
from ma_boot.node.transfers.mapping import inputs_of, outputs_of


class CodeOfJob(NamedTuple):
    """The directory of the code, empty if it is not known, and the paths of inputs, outputs and logs."""

    root: str
    without: tuple[str, ...]


def code_of(boot: Boot) -> CodeOfJob:
    """Returns the code of a job, by the script of its command."""
    job, cwd, script = boot.job, boot.context.cwd, None
    # An input may bring the script; the launch reports a missing one.
    with suppress(CommandNotFound):
        script = find_code(boot.request.command, cwd, job.job_dir)
    transfers = boot.transfers
    routes = (*inputs_of(transfers), *outputs_of(transfers))
    paths = [str(route.path(transfers.base)) for route in routes] if transfers is not None else []
    return CodeOfJob(code_root(script, job.job_dir, cwd, job.home), (job.log_dir, *paths))
