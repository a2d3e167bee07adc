"""How every command of a running job reaches ModelArts."""

from __future__ import annotations

import time
from typing import Mapping

from ma_boot.job_service import JobApi, PatientApi, api_access
from ma_boot.reporting import print_lines


def opened(environ: Mapping[str, str]) -> JobApi:
    """The API. Raises `ConfigError` with all that is missing."""
    return JobApi(api_access(environ))


def patient(environ: Mapping[str, str], interval: float) -> PatientApi:
    """The API, asked again for as long as the service does not answer, which is said on standard error."""
    return PatientApi(lambda: opened(environ), note, time.sleep, min(1.0, interval))


def note(text: str) -> None:
    """Prints a line that is no result to standard error."""
    print_lines(f"ma_boot: {text}", 2)
