"""Options for inputs and outputs in OBS."""

from __future__ import annotations

from typing import Any, Callable, Tuple

import click

from ma_boot.cli.options.completion import DIR, FILE
from ma_boot.cli.options.option import SECONDS, SECONDS_ABOVE_0, RunOption, RunVariable, Topic, by_variable

OBS = Topic(
    "obs",
    "inputs and outputs of the training in OBS",
    (
        "ma_boot --path-mapping path_mapping_config.py train.py",
        "ma_boot --path-mapping path_mapping_config.py --upload-timeout 1800 train.py",
    ),
    (
        RunOption("--path-mapping", **FILE, common=True, help="Inputs and outputs in OBS."),
        RunOption("--obs-root", **DIR, help="Use DIR/BUCKET/KEY instead of obs://BUCKET/KEY."),
        RunOption(
            "--upload-timeout", **SECONDS, default=600, help="Timeout of the upload after the training."
        ),
        RunVariable(
            "--download-timeout",
            **SECONDS,
            default=600,
            help="Retry a request of the inputs that fails for this long; 0: not at all.",
        ),
        RunVariable(
            "--stall-timeout",
            **SECONDS_ABOVE_0,
            default=60,
            help="Retry a request to OBS that has transferred nothing for this long.",
        ),
        RunOption(
            "--take-over",
            is_flag=True,
            help="Go on from the checkpoints of another job that has ended without saying so.",
        ),
    ),
    "See `ma_boot sync --help` for transfers without a job.",
)


def store_options(timeout: int) -> Tuple[Callable[..., Any], ...]:
    """The options of commands that reach OBS without a job; `timeout` is the default in seconds."""
    return (
        by_variable(
            "--stall-timeout",
            **SECONDS_ABOVE_0,
            default=60,
            help="Retry a request to OBS that has transferred nothing for this long.",
        ),
        click.option(
            "--timeout",
            **SECONDS,
            default=timeout,
            show_default=True,
            help="Retry a request to OBS that fails for this long; 0: not at all.",
        ),
        click.option("--obs-root", **DIR, help="Use DIR/BUCKET/KEY instead of obs://BUCKET/KEY."),
    )
