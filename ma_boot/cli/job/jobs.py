"""`ma_boot job list` and `ma_boot job stop`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

import click

from ma_boot.cli.job.access import opened
from ma_boot.errors import UsageError
from ma_boot.job import MAY_BE_STOPPED, STATES, state_of
from ma_boot.job_service import job_id, row_of
from ma_boot.reporting import print_lines
from ma_boot.wording import duration

_STATES = ["Creating", "Pending", "Running", "Terminating", "Completed", "Failed", "Terminated", "Abnormal"]


@click.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    metavar="STATE",
    help=f"Only jobs in this state: {', '.join(_STATES)}.",
)
@click.option("--name", metavar="TEXT", help="Only jobs whose name contains this.")
@click.option("--limit", type=click.IntRange(1, 50), default=20, show_default=True, help="Jobs at most.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_jobs(
    environ: Mapping[str, str],
    states: Sequence[str],
    name: Optional[str],
    limit: int,
    as_json: bool,
) -> int:
    """Lists jobs, the newest first.

    \b
    Example:
      ma_boot job list --state Running
    """
    filters: List[Dict[str, Any]] = []
    if states:
        filters.append({"key": "phase", "operator": "in", "value": list(states)})
    if name:
        filters.append({"key": "name", "operator": "like", "value": [name]})
    rows = [row_of(job) for job in opened(environ).search(filters, limit)]
    print_lines(json.dumps(rows, indent=2, ensure_ascii=False) if as_json else _table(rows))
    return 0


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"{'ID':36}  {'STATE':11}  {'CREATED':16}  {'TIME':>8}  {'NODES':>5}  NAME"]
    for row in rows:
        created = time.localtime((row["created"] or 0) / 1000)
        lines.append(
            f"{row['id']:36}  {row['state']:11}  {time.strftime('%Y-%m-%d %H:%M', created)}  "
            f"{duration(row['seconds']):>8}  {row['nodes'] or '':>5}  {row['name']}"
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
    api = opened(environ)
    found = job_id(api, job)
    details = api.details(found)
    state = state_of(details)
    if state in STATES and state not in MAY_BE_STOPPED:
        print_lines(f"{found} is {state} already: nothing to stop")
        return 0
    what = f"{details['metadata'].get('name')} ({found}), which is {state}"
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"this would stop {what}; without a terminal, add --yes")
    if not yes:
        click.confirm(f"Stop {what}?", abort=True, err=True)
    api.stop(found)
    print_lines(f"asked ModelArts to stop {found}; ma_boot job watch {found} shows its end")
    return 0
