"""`ma_boot job report`: the page of a whole job from its log path in OBS."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Optional

import click

from ma_boot.cli.job.access import opened
from ma_boot.cli.options import DIR
from ma_boot.job_service import fetched_logs, job_id, log_place
from ma_boot.reporting import print_lines, write_atomically


@click.command("report")
@click.argument("job")
@click.option("--output", **DIR, help="Where logs and page go; default: ma_boot-report/NAME.")
@click.pass_obj
def report(environ: Mapping[str, str], /, job: str, output: Optional[str]) -> int:
    """Fetches events and logs of JOB, an id or a name, from its log path and makes the page of all its nodes.

    \b
    Example:
      ma_boot job report resnet-2x8
    """
    from ma_boot.reporting.page import page_of

    api = opened(environ)
    found = job_id(api, job)
    details = api.details(found)
    name = str(details["metadata"].get("name") or job)
    target = Path(output or Path("ma_boot-report", name)).absolute()  # which is no code of the next job
    events = fetched_logs(log_place(details), found, target, environ)
    page = target / "report.html"
    write_atomically(page, page_of(events, page))
    print_lines(str(page))
    return 0
