"""`ma_boot report`: one page from the events of a job's nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Sequence

import click

from ma_boot.cli.options import FILE
from ma_boot.reporting import print_lines, write_atomically


@click.command()
@click.argument(
    "events",
    nargs=-1,
    required=True,
    metavar="EVENTS...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--output",
    **FILE,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write; by default report.html beside the first of the EVENTS.",
)
def report(events: Sequence[Path], output: Optional[Path]) -> int:
    """Makes one page of a job: all its nodes on one timeline.

    EVENTS are the files <job>-node-<i>-events.jsonl of a log directory. The page also shows the ends of the
    processes' logs if they are beside the events.

    \b
    Example:
      ma_boot report log/*-events.jsonl --output job.html
    """
    from ma_boot.reporting.page import page_of

    page = output or events[0].with_name("report.html")
    write_atomically(page, page_of(events, page))
    print_lines(str(page))
    return 0
