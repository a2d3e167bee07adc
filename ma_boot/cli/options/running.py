"""Options for the time while the processes run: output, restarts, hangs, the stop."""

from __future__ import annotations

import click

from ma_boot.cli.options.option import SECONDS, SECONDS_ABOVE_0, RunOption, Topic


def _tee(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value in ("all", "first", "none") or all(part.isdecimal() for part in value.split(",")):
        return value
    raise click.BadParameter(f"found {value!r}, expected all, first, none, or ranks as 0,3")


RUNNING = Topic(
    "running",
    "output, restarts, hangs and the stop of the processes",
    (
        "ma_boot --tee first --max-restarts 3 train.py",
        "ma_boot --hang-timeout 1800 --hang-action stop train.py",
    ),
    (
        RunOption(
            "--tee",
            default="all",
            metavar="RANKS",
            callback=_tee,
            help="Ranks whose output is shown here, not in their files only: all, first, none, or as 0,3.",
        ),
        RunOption(
            "--stop-timeout",
            **SECONDS,
            default=15,
            help="Between SIGTERM and SIGKILL for the processes.",
        ),
        RunOption(
            "--max-restarts",
            type=click.IntRange(min=0),
            metavar="N",
            default=0,
            help="Start all processes again after a failure; jobs of one node only.",
        ),
        RunOption(
            "--start-seconds",
            **SECONDS,
            default=10,
            help="An earlier failure is no reason for a restart.",
        ),
        RunOption(
            "--hang-timeout",
            **SECONDS_ABOVE_0,
            everyday="Watch for processes that do nothing for so long.",
            help="Watch for processes without output and CPU time for so long.",
        ),
        RunOption(
            "--hang-action",
            type=click.Choice(["report", "stop"]),
            default="report",
            help="What to do about a hang.",
        ),
    ),
)
