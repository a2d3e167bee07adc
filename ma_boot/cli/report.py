"""`ma_boot report`: one page from the events of a job's nodes."""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional, Sequence

import click

from ma_boot.cli.options import FILE, files
from ma_boot.reporting import print_lines, write_atomically


class _Report(click.Command):
    """All words after `--compare`, up to the next option, are its values."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        words, comparing = [], False
        for word in args:
            if word.startswith("-") or not comparing:
                comparing = word == "--compare"
                words += [] if comparing else [word]
            else:
                words += ["--compare", word]
        if "--compare" in args and "--compare" not in words:
            raise click.UsageError("--compare: expected the events of another run", ctx)
        return super().parse_args(ctx, words)


@click.command(cls=_Report)
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
@click.option(
    "--compare",
    shell_complete=files,
    multiple=True,
    metavar="EVENTS...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The events of another run, to compare this one with.",
)
def report(events: Sequence[Path], output: Optional[Path], compare: Sequence[Path]) -> int:
    """Makes one page of a job: all its nodes on one timeline.

    EVENTS are the files <job>-node-<i>-events.jsonl of a log directory. The page also shows the ends of the
    processes' logs if they are beside the events.

    \b
    Example:
      ma_boot report log/*-events.jsonl --output job.html
      ma_boot report log/*-events.jsonl --compare old/*-events.jsonl
    """
    from ma_boot.reporting.page import page_of

    page = output or events[0].with_name("report.html")
    write_atomically(page, page_of(events, page, compare))
    print_lines(str(page))
    return 0
