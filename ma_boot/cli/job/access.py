"""The options by which every command of a running job reaches ModelArts."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Optional

import click

from ma_boot.job_service import JobApi, PatientApi, api_access
from ma_boot.reporting import print_lines


def with_access(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options `--region` and `--endpoint`."""
    region = click.option("--region", help="Region of ModelArts, e.g. cn-north-4.")
    endpoint = click.option(
        "--endpoint", metavar="URL", help="Endpoint of ModelArts, if not the region's own."
    )
    return region(endpoint(function))


def opened(environ: Mapping[str, str], region: Optional[str], endpoint: Optional[str]) -> JobApi:
    """The API. Raises `ConfigError` with all that is missing."""
    return JobApi(api_access(environ, region, endpoint))


def patient(
    environ: Mapping[str, str], region: Optional[str], endpoint: Optional[str], interval: float
) -> PatientApi:
    """The API, asked again for as long as the service does not answer, which is said on standard error."""
    return PatientApi(lambda: opened(environ, region, endpoint), note, time.sleep, min(1.0, interval))


def note(text: str) -> None:
    """Prints a line that is no result to standard error."""
    print_lines(f"ma_boot: {text}", 2)
