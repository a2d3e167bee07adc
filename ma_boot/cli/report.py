"""`ma_boot report`: one page from the event files of a job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ma_boot.cli.options.click_types import FILE
from ma_boot.report.console import print_lines
from ma_boot.report.files import write_atomically


@click.command()
@click.argument(
    "events",
    nargs=-1,
    required=True,
    metavar="EVENTS...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--output",
    **FILE,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write; by default report.html in the directory, or beside the first of the EVENTS.",
)
def report(events: Sequence[Path], output: Path | None) -> int:
    """Reports why a job ended, and makes one page of it: all its nodes on one timeline.

    EVENTS are directories with logs of the job, such as its log directory or a rehearsal's, or files
    <job>-node-<i>-events.jsonl. The page also shows the ends of the processes' logs if they are beside the
    events.

    \b
    Example:
      ma_boot report log --output job.html
    """
    from ma_boot.report.page.read import event_files, page_of

    page = output or (events[0] / "report.html" if events[0].is_dir() else events[0].with_name("report.html"))
    made = page_of(event_files(events), page)
    write_atomically(page, made.text)
    time = [f"useful node time: {made.time}"] if made.time else []
    print_lines("\n".join([made.end, *made.restarts, *time, f"page: {page}"]))
    return 0
