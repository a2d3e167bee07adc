"""The log path of a job in OBS: what the nodes have left there, fetched."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any, List, Mapping

from ma_boot.errors import ConfigError, InputMissing, StoreUnavailable
from ma_boot.reporting import with_store_hint
from path_mapping.errors import CredentialsMissing, MissingInputs, PathMappingError
from path_mapping.mapping import ObsUrl, Route
from path_mapping.stores import open_store
from path_mapping.transfer import download


def log_place(details: Mapping[str, Any]) -> ObsUrl:
    """Where the logs of a job are. Raises `InputMissing` for a job without a log path."""
    path = ((details.get("spec") or {}).get("log_export_path") or {}).get("obs_url") or ""
    try:
        return ObsUrl.parse(path if "://" in path else f"obs:/{path}")
    except ValueError as error:
        raise InputMissing(
            "the job has no log path in OBS, where its nodes' events would be: set log-url in the job file "
            "before the job is submitted"
        ) from error


def fetched_logs(url: ObsUrl, job: str, target: Path, environ: Mapping[str, str]) -> List[Path]:
    """Downloads what is at the log path and not here yet; returns the files of the job's events.

    Files are named after the job's id. Where none has it, those of the only job that left some are taken.

    Raises:
        InputMissing: nothing is there, or no events.
        ConfigError: credentials of OBS are missing.
        StoreUnavailable: OBS does not answer, or refuses.
    """
    route = Route(str(target), url, include=("*.jsonl", "*.json", "*.log", "*.txt"))
    try:
        store = open_store(environ, None)
        download([route], Path.cwd(), store, cancel=threading.Event(), progress=lambda now: None)
    except CredentialsMissing as error:
        raise ConfigError(with_store_hint(str(error))) from error
    except MissingInputs as error:
        raise InputMissing(f"the log path {url} is empty: {error}") from error
    except PathMappingError as error:
        raise StoreUnavailable(with_store_hint(f"{url}: {error}")) from error
    events = sorted(target.rglob("*-events.jsonl"))
    if not events:
        raise InputMissing(f"{url} has no events of ma_boot; do the nodes run it, and has the job begun?")
    of_job = [file for file in events if job in file.name]
    others = {re.sub(r"(-node-\d+)?-events\.jsonl$", "", file.name) for file in events}
    if not of_job and len(others) > 1:
        raise InputMissing(f"{url} has events of {len(others)} other jobs, and none of {job}")
    return of_job or events
