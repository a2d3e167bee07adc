"""`ma_boot job list`, `stop`, `watch`, `logs` and `report`: jobs that were submitted."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ma_boot.cli.options.click_types import DIR, Whole, parse_age
from ma_boot.cli.options.declared import add_option
from ma_boot.desk.job_service.api import JobApi, PatientApi, api_access
from ma_boot.desk.job_service.follow import Following, JobFollower
from ma_boot.desk.job_service.in_obs import fetched_logs, log_place
from ma_boot.desk.job_service.jobs import (
    ENDED,
    MAY_BE_STOPPED,
    STATES,
    cause_of,
    exit_code_of,
    job_id,
    platform_times,
    row_of,
    state_of,
)
from ma_boot.desk.job_service.log_tail import Recent
from ma_boot.errors import ConfigError, UsageError
from ma_boot.node.option import SECONDS_ABOVE_0, Option
from ma_boot.report.console import Console, is_interactive, print_lines
from ma_boot.report.files import write_atomically
from ma_boot.wording import duration


def open_api(environ: Mapping[str, str]) -> JobApi:
    """Opens the API. Raises `ConfigError` that lists all missing values."""
    return JobApi(api_access(environ), note)


def open_patient_api(environ: Mapping[str, str], interval: float) -> PatientApi:
    """Opens the API with retries for as long as the service does not answer, reported on standard error."""
    return PatientApi(lambda: open_api(environ), note, time.sleep, min(1.0, interval))


def note(text: str) -> None:
    """Prints a note to standard error; standard output is for results."""
    print_lines(f"ma_boot: {text}", 2)


@click.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help=f"Only jobs in this state: {', '.join(STATES)}.",
)
@click.option("--name", metavar="TEXT", help="Only jobs whose name contains this.")
@click.option(
    "--limit", type=Whole(1, 1000), default=20, show_default=True, help="How many jobs to show at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_jobs(
    environ: Mapping[str, str], states: Sequence[str], name: str | None, limit: int, as_json: bool
) -> int:
    """Lists jobs, the newest first.

    \b
    Example:
      ma_boot job list --state Running
    """
    filters: list[dict[str, Any]] = []
    if states:
        filters.append({"key": "phase", "operator": "in", "value": list(states)})
    if name:
        filters.append({"key": "name", "operator": "like", "value": [name]})
    rows = [row_of(job) for job in open_api(environ).search(filters, limit)]
    print_lines(json.dumps(rows, indent=2, ensure_ascii=False) if as_json else _table(rows))
    return 0


# Seconds since 1970 in the year 9892: datetime rejects larger values, which a faulty answer may contain.
_LATEST = 250_000_000_000


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"{'ID':36}  {'STATE':11}  {'CREATED':16}  {'TIME':>8}  {'NODES':>5}  NAME"]
    for row in rows:
        created = datetime.fromtimestamp(min(max(row["created"] or 0, 0) / 1000, _LATEST))
        lines.append(
            f"{row['id']:36}  {row['state']:11}  {created:%Y-%m-%d %H:%M}  "
            f"{duration(row['seconds']):>8}  {row['nodes'] or '':>5}  {row['name'] or '?'}"
        )
    return "\n".join(lines)


@click.command("stop")
@click.argument("job")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def stop(environ: Mapping[str, str], job: str, yes: bool) -> int:
    """Stops JOB, an id or a name; on a terminal it asks first.

    \b
    Example:
      ma_boot job stop resnet-2x8 --yes
    """
    api = open_api(environ)
    identifier = job_id(api, job)
    details = api.details(identifier)
    state = state_of(details)
    if _ends_anyway(identifier, state):
        return 0
    what = f"{details['metadata']['name']} ({identifier}), which is {state}"
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"this would stop {what}; without a terminal, add --yes")
    if not yes:
        click.confirm(f"Stop {what}?", abort=True, err=True)
    try:
        api.stop(identifier)
    except ConfigError:  # it may have ended meanwhile
        if not _ends_anyway(identifier, state_of(api.details(identifier))):
            raise
        return 0
    print_lines(f"asked ModelArts to stop {identifier}; ma_boot job watch {identifier} shows its end")
    return 0


def _ends_anyway(job: str, state: str) -> bool:
    """Returns whether a job has ended or is about to end, and prints it."""
    is_over = state in STATES and state not in MAY_BE_STOPPED
    if is_over:
        print_lines(f"{job} is {state} already: nothing to stop")
    return is_over


INTERVAL = add_option(
    Option("interval", 10.0, "Time between polls.", kind=SECONDS_ABOVE_0, variable_only=True)
)


@click.command("watch")
@click.argument("job")
@INTERVAL
@click.pass_obj
def watch(environ: Mapping[str, str], /, job: str, interval: float) -> int:
    """Shows states, stages, events and logs of JOB, an id or a name, to its end.

    The exit code is the job's own. Ctrl-C leaves the job running.

    \b
    Example:
      ma_boot job watch resnet-2x8
    """
    return watch_job(environ, open_patient_api(environ, interval), Following(job, interval=interval))


@click.command("logs")
@click.argument("job")
@click.option("--node", "nodes", multiple=True, type=Whole(min=0), metavar="N", help="Only this node.")
@click.option("--follow", is_flag=True, help="Continue until the job has ended.")
@click.option(
    "--since",
    metavar="AGE",
    callback=parse_age,
    help="Only the last 10m, 2h or 1d of each log, counted back from its newest time. The "
    "times are those in the lines (2026-01-31 12:00:00): ModelArts does not tell when a line came.",
)
@click.option(
    "--tail", type=Whole(min=0), metavar="N", help="Only the last N lines of each log that exist now."
)
@INTERVAL
@click.pass_obj
def logs(
    environ: Mapping[str, str],
    /,
    job: str,
    nodes: Sequence[int],
    follow: bool,
    since: float,
    tail: int | None,
    interval: float,
) -> int:
    """Prints the logs of JOB, an id or a name, each line with its node.

    \b
    Example:
      ma_boot job logs resnet-2x8 --node 1 --since 10m --follow
    """
    seconds = since if math.isfinite(since) else None
    recent = None if tail is None and seconds is None else Recent(tail, seconds)
    following = Following(
        job, tuple(nodes), logs_only=True, until_end=follow, interval=interval, recent=recent
    )
    return watch_job(environ, open_patient_api(environ, interval), following)


def watch_job(environ: Mapping[str, str], api: PatientApi, following: Following) -> int:
    """Follows a job, named by its id or name, on standard output; returns its exit code, or 130 after Ctrl-C.

    Logs alone have no exit code of the job: 0.
    """
    try:
        following = replace(following, job=api.call(job_id, following.job))
        details = _printed(environ, api, following)
    except KeyboardInterrupt:
        job, way = following.job, "logs --follow" if following.logs_only else "watch"
        note(
            "still running; you only stopped watching. "
            f"To come back: ma_boot job {way} {job}; to stop it: ma_boot job stop {job}"
        )
        return 128 + signal.SIGINT
    if following.logs_only or state_of(details) not in ENDED:
        return 0
    cause, code = cause_of(details), exit_code_of(details)
    note(f"the job is {state_of(details)}{': ' + cause if cause else ''}; exit code {code}")
    return code


# Seconds; a slow reader of the log must not lose lines.
_PATIENCE = 1e6
# Seconds between two updates of the status line.
_TICK = 1.0


def _printed(environ: Mapping[str, str], api: PatientApi, following: Following) -> Mapping[str, Any]:
    """Prints all news of a job; returns its details at the end."""
    with ExitStack() as stack:
        console = stack.enter_context(Console(interactive=is_interactive(environ), patience=_PATIENCE))
        show = stack.enter_context(console.below())

        def pause(seconds: float) -> None:
            """Sleeps, and updates the time in the status line meanwhile."""
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                show(_view(follower, seconds - left))
                time.sleep(min(left, _TICK) if console.interactive else left)

        follower = JobFollower(api, following, pause)
        for news in follower.all():
            if news.kind == "note":
                note("\n".join(news.lines))
                continue
            while console.pause():
                time.sleep(0.01)
            if news.kind == "log":  # is the training's, as it is
                text = "".join(f"[{news.source}] {line}\n" for line in news.lines)
                console.write(text.encode("utf-8", "backslashreplace"))
            else:
                console.line("\n".join(f"[job] {line}" for line in news.lines))
            show(_view(follower, 0))
    if following.logs_only and not any(log.count for log in follower.logs.values()):
        note(f"the job is {state_of(follower.details)}; there is no log yet")
    return follower.details


def _view(follower: JobFollower, later: float) -> list[str]:
    """Formats the status line: name, state, stage, time, and number of lines per node.

    `later` is the time since the last answer of the service, in seconds.
    """
    details, state = follower.details, state_of(follower.details)
    name = details["metadata"]["name"] or ""
    seconds = (details["status"]["duration"] or 0) / 1000 + (later if state == "Running" else 0)
    stage = f" ({follower.stage.partition(':')[0]})" if follower.stage and state == "Running" else ""
    counts = "  ".join(f"{log.label}: {log.count:,}" for log in follower.logs.values())
    return [f"{name}  {state}{stage}  {duration(math.floor(seconds))}  lines  {counts}"]


@click.command("report")
@click.argument("job")
@click.option("--output", **DIR, help="Where logs and page go; default: ma_boot-report/NAME.")
@click.pass_obj
def report(environ: Mapping[str, str], /, job: str, output: str | None) -> int:
    """Fetches events and logs of JOB, an id or a name, from its log path and makes the page of all its nodes.

    \b
    Example:
      ma_boot job report resnet-2x8
    """
    from ma_boot.report.page.read import page_of

    api = open_api(environ)
    identifier = job_id(api, job)
    details = api.details(identifier)
    name = str(details["metadata"]["name"] or job)
    target = Path(output or Path("ma_boot-report", name)).absolute()  # which is no code of the next job
    events = fetched_logs(log_place(details), identifier, target, environ)
    page = target / "report.html"
    made = page_of(events, page, platform=platform_times(details))
    write_atomically(page, made.text)
    print_lines("\n".join([made.end, *made.restarts, *made.starts, str(page)]))
    return 0
