"""`ma_boot doctor`: checks this container before a job does."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from ma_boot.cli.options.click_types import files
from ma_boot.errors import ExitCode
from ma_boot.platform.modelarts.findings import failed
from ma_boot.platform.recognition.recognise import PLATFORM_NAMES
from ma_boot.report.console import print_lines


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--platform", type=click.Choice(PLATFORM_NAMES), metavar="NAME", help="As for run.")
@click.option(
    "--python", metavar="PATH", shell_complete=files, help="Absolute path of the training's python."
)
@click.option("--conda-env", metavar="NAME", help="Conda environment of the training.")
@click.option(
    "--configure",
    is_flag=True,
    help="Also check the connections to other nodes' cards, by reconfiguring the cards briefly.",
)
@click.pass_obj
def doctor(
    environ: Mapping[str, str],
    as_json: bool,
    platform: str | None,
    python: str | None,
    conda_env: str | None,
    configure: bool,
) -> int:
    """Checks this container before a job does; each finding says what is wrong and what to do.

    Changes nothing without --configure. Exits with 78 if there are errors, else with 0.

    \b
    Example:
      ma_boot doctor --conda-env torch
    """
    from ma_boot.node.doctor.container import System
    from ma_boot.node.doctor.examination import examine, format_findings, format_findings_as_json

    findings = examine(System(environ, os.uname().nodename, platform), python, conda_env, configure)
    print_lines(format_findings_as_json(findings) if as_json else format_findings(findings))
    return ExitCode.CONFIG if failed(findings) else ExitCode.SUCCESS
