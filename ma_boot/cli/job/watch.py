"""`ma_boot job watch` and `ma_boot job logs`: what a job does and prints, as it comes."""

from __future__ import annotations

import math
import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, List, Mapping, Sequence

import click

from ma_boot.cli.job.access import note, patient, with_access
from ma_boot.cli.options import SECONDS_ABOVE_0

if TYPE_CHECKING:
    from ma_boot.job_service import Following, JobFollower, PatientApi
    from ma_boot.reporting import Console

_INTERVAL = click.option(
    "--interval", **SECONDS_ABOVE_0, default=10, show_default=True, help="Time between two looks."
)


@click.command("watch")
@click.argument("job")
@_INTERVAL
@with_access
@click.pass_obj
def watch(environ: Mapping[str, str], /, job: str, interval: float, **access: Any) -> int:
    """Shows states, events and logs of JOB, an id or a name, to its end; the exit code is the job's own.

    Ctrl-C leaves the job running.

    \b
    Example:
      ma_boot job watch resnet-2x8
    """
    from ma_boot.job_service import Following, job_id

    api = patient(environ, access["region"], access["endpoint"], interval)
    found = api.call(job_id, job)
    return watched(environ, api, Following(found, interval=interval))


@click.command("logs")
@click.argument("job")
@click.option(
    "--node", "nodes", multiple=True, type=click.IntRange(min=0), metavar="N", help="Only this node."
)
@click.option("--follow", is_flag=True, help="Go on until the job has ended.")
@_INTERVAL
@with_access
@click.pass_obj
def logs(
    environ: Mapping[str, str],
    /,
    job: str,
    nodes: Sequence[int],
    follow: bool,
    interval: float,
    **access: Any,
) -> int:
    """Prints the logs of JOB, an id or a name, each line with its node.

    \b
    Example:
      ma_boot job logs resnet-2x8 --node 1 --follow
    """
    from ma_boot.job_service import Following, job_id

    api = patient(environ, access["region"], access["endpoint"], interval)
    found = api.call(job_id, job)
    following = Following(found, tuple(nodes), logs_only=True, until_end=follow, interval=interval)
    watched(environ, api, following)
    return 0


def watched(environ: Mapping[str, str], api: PatientApi, following: Following) -> int:
    """Follows a job on standard output; returns its exit code, or 130 after Ctrl-C."""
    from ma_boot.job import ENDED, cause_of, exit_code_of, state_of
    from ma_boot.job_service import JobFollower
    from ma_boot.reporting import Console, is_interactive

    follower = JobFollower(api, following, time.sleep)
    try:
        with ExitStack() as stack:
            console = stack.enter_context(Console(interactive=is_interactive(environ), patience=_PATIENCE))
            _print_all(follower, following, console)
        if following.logs_only or state_of(follower.details) not in ENDED:
            return 0
        cause = cause_of(follower.details)
        code = exit_code_of(follower.details)
        note(f"the job is {state_of(follower.details)}{': ' + cause if cause else ''}; exit code {code}")
    except KeyboardInterrupt:
        note(
            f"the job goes on. To come back: ma_boot job watch {following.job}; "
            f"to stop it: ma_boot job stop {following.job}"
        )
        return 128 + signal.SIGINT
    return code


_PATIENCE = 1e6  # seconds: no line is dropped for a reader that is slow


def _print_all(follower: JobFollower, following: Following, console: Console) -> None:
    with console.below() as show:
        for seen in follower.all():
            mark = f"[{seen.source}] " if seen.kind == "log" else "[job] "
            while console.pause():
                time.sleep(0.01)
            console.write(
                "".join(f"{mark}{line}\n" for line in seen.lines).encode("utf-8", "backslashreplace")
            )
            show(_view(follower))


def _view(follower: JobFollower) -> List[str]:
    """The line below the output: the job's name and state, and the lines of each worker."""
    from ma_boot.job import state_of
    from ma_boot.reporting import duration

    status = follower.details.get("status") or {}
    name = (follower.details.get("metadata") or {}).get("name", "")
    seconds = math.floor((status.get("duration") or 0) / 1000)
    counts = "  ".join(f"{log.label}: {log.count:,}" for log in follower.logs.values())
    return [f"{name}  {state_of(follower.details)}  {duration(seconds)}  lines  {counts}"]
