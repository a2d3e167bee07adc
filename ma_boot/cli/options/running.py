"""Options for running processes: output, restarts, hangs, stopping."""

from __future__ import annotations

import click

from ma_boot.cli.options.option import SECONDS, SECONDS_ABOVE_0, RunOption, Topic


def _tee(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value in ("all", "first", "none") or all(part.isdecimal() for part in value.split(",")):
        return value
    raise click.BadParameter(f"found {value!r}, expected all, first, none, or ranks such as 0,3")


RUNNING = Topic(
    "running",
    "output, restarts, hangs and stopping of the processes",
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
            help="Ranks whose output is shown, besides being written to files: all, first, none, or a list "
            "such as 0,3.",
        ),
        RunOption("--stop-timeout", **SECONDS, default=15, help="Time between SIGTERM and SIGKILL."),
        RunOption(
            "--max-restarts",
            type=click.IntRange(min=0),
            metavar="N",
            default=0,
            help="Restart all processes after a failure; for jobs of one node.",
        ),
        RunOption(
            "--start-seconds", **SECONDS, default=10, help="Do not restart after a failure earlier than this."
        ),
        RunOption(
            "--hang-timeout",
            **SECONDS_ABOVE_0,
            common=True,
            help="Detect processes that are idle for this long.",
        ),
        RunOption(
            "--hang-action",
            type=click.Choice(["report", "stop"]),
            default="report",
            help="What to do if the processes hang.",
        ),
    ),
)
