"""`ma_boot doctor`: checks this container before a job does."""

from __future__ import annotations

import json
import os
from typing import Mapping, Optional

import click

from ma_boot.cli.options import files
from ma_boot.errors import ExitCode
from ma_boot.reporting import print_lines


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option(
    "--python",
    metavar="PATH",
    shell_complete=files,
    help="Absolute path of the python that runs the training.",
)
@click.option("--conda-env", metavar="NAME", help="Conda environment of the training.")
@click.option(
    "--configure",
    is_flag=True,
    help="Check the way to each card of the other nodes, for which cards are set to look for them.",
)
@click.pass_obj
def doctor(
    environ: Mapping[str, str],
    as_json: bool,
    python: Optional[str],
    conda_env: Optional[str],
    configure: bool,
) -> int:
    """Checks this container before a job does: each finding with what was seen and what to do.

    Nothing is changed without --configure. The exit code is 78 when there are errors, else 0.

    \b
    Example:
      ma_boot doctor --conda-env torch
    """
    from ma_boot.doctor import Patient, document, examine, failed, text  # a job does not need it

    patient = Patient(environ, os.uname().nodename, os.getcwd())
    findings = examine(patient, python, conda_env, configure)
    print_lines(json.dumps(document(findings), indent=2, ensure_ascii=False) if as_json else text(findings))
    return int(ExitCode.CONFIG if failed(findings) else ExitCode.SUCCESS)
