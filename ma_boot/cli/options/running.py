"""Options for running processes: output, restarts, hangs, stopping."""

from __future__ import annotations

from typing import Optional, Tuple

import click

from ma_boot.cli.options.completion import FILE
from ma_boot.cli.options.option import SECONDS, SECONDS_ABOVE_0, RunOption, RunVariable, Topic


def _tee(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value in ("all", "first", "none") or all(part.isdecimal() for part in value.split(",")):
        return value
    raise click.BadParameter(f"found {value!r}, expected all, first, none, or ranks such as 0,3")


def _interval(ctx: click.Context, param: click.Parameter, value: str) -> float:
    try:
        seconds = 0.0 if value == "off" else float(value)
    except ValueError:
        seconds = -1.0
    if seconds == 0 or 1 <= seconds <= 3600:
        return seconds
    raise click.BadParameter(f"found {value!r}, expected 1 to 3600 seconds, or off")


def _address(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[str]:
    if value is None:
        return None
    host, found, port = value.rpartition(":")
    if port.isdecimal() and int(port) <= 65535 and (host or not found):
        return value
    raise click.BadParameter(f"found {value!r}, expected PORT (all interfaces) or ADDRESS:PORT")


def _patterns(ctx: click.Context, param: click.Parameter, values: Tuple[str, ...]) -> Tuple[str, ...]:
    if values:
        from ma_boot.observe import given  # most jobs have no pattern of their own

        try:
            for value in values:
                given(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return values


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
        RunVariable(
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
            help="What to do if they hang; stop ends the run with 124.",
        ),
        RunOption(
            "--metrics",
            default="10",
            metavar="SECONDS",
            callback=_interval,
            help="Time between samples of CPU, memory, cards, step and loss, or off.",
        ),
        RunOption(
            "--metric",
            multiple=True,
            metavar="NAME=REGEX",
            separator="\n",
            callback=_patterns,
            help="Value to look for in the output, e.g. 'loss=loss: ([0-9.]+)'.",
        ),
        RunOption(
            "--metrics-port",
            metavar="[ADDRESS:]PORT",
            callback=_address,
            help="Serve the metrics to Prometheus; without ADDRESS on all interfaces.",
        ),
        RunVariable(
            "--channel-port",
            type=click.IntRange(1, 65535),
            metavar="PORT",
            default=29402,
            help="Port by which nodes with the same MABOOT_JOB_TOKEN tell each other of failures and hangs.",
        ),
        RunVariable(
            "--reset-file",
            **FILE,
            help="MindCluster's reset.json, if it is not at /user/restore/reset/config.",
        ),
    ),
)
