"""Ledgers of jobs for `ma_boot report`: read from OBS, as lines and as a JSON document."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ma_boot.errors import InputMissing, StoreUnavailable, UsageError
from ma_boot.report.job_ledger import JobLedger, entry_fields, read_fields

# Seconds; max. time for the retries of a failing request to OBS.
PATIENCE_SECONDS = 60.0


class EventsOrUrl(click.Path):
    """An existing path, or the URL of a ledger, which stays a text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path or the text; raises `click.BadParameter`."""
        if isinstance(value, str) and "://" in value:
            return value
        return super().convert(value, param, ctx)


def split_places(places: Sequence[Path | str]) -> tuple[list[Path], list[str]]:
    """Returns the paths, and the URLs."""
    paths = [place for place in places if isinstance(place, Path)]
    return paths, [place for place in places if isinstance(place, str)]


def read_job_ledgers(
    urls: Sequence[str], obs_root: str | None, environ: Mapping[str, str]
) -> dict[str, JobLedger]:
    """Reads the ledgers of all jobs at these URLs, without secrets, by the names of their directories.

    Raises `UsageError`, `ConfigError`, `StoreUnavailable`, and `InputMissing` if there is none.
    """
    if not urls:
        return {}
    from ma_boot.node.checkpoints.records.documents import Documents
    from ma_boot.node.checkpoints.records.keys import Place
    from ma_boot.node.checkpoints.records.ledger_documents import read_ledgers
    from ma_boot.node.transfers.mapping import configured_store
    from ma_boot.node.transfers.options import TransferOptions
    from ma_boot.report.hints import with_store_hint
    from path_mapping.errors import PathMappingError
    from path_mapping.mapping.routes import ObsUrl
    from path_mapping.workers.retry import RetriedStore, RetryPolicy

    try:
        typed = [ObsUrl.typed(url) for url in urls]
    except ValueError as error:
        raise UsageError(str(error)) from error
    store = configured_store(TransferOptions(obs_root=obs_root), environ, os.getcwd())
    retried = RetriedStore(store, threading.Event(), RetryPolicy(PATIENCE_SECONDS))
    ledgers: dict[str, JobLedger] = {}
    try:
        for url in typed:
            ledgers.update(read_ledgers(Documents(retried, Place.of(url))))
    except PathMappingError as error:
        raise StoreUnavailable(with_store_hint(str(error))) from error
    if not ledgers:
        raise InputMissing(
            f"no ledger of a job below {', '.join(map(str, typed))}: expected the URL of an output with "
            "'checkpoint', or that of MABOOT_LEDGER"
        )
    return {name: _masked(ledger) for name, ledger in ledgers.items()}


def _masked(ledger: JobLedger) -> JobLedger:
    """Masks secrets as in the events of a job: another program may have written entries."""
    return JobLedger.of(read_fields(entry_fields(entry)) for entry in ledger.entries)


def ledger_lines(ledgers: Mapping[str, JobLedger]) -> list[str]:
    """Returns the end of each job with a table of its starts, the job that has ended last at the end."""
    from ma_boot.report.page.starts import end_of_starts, starts_lines
    from ma_boot.report.timeline.all_starts import all_starts
    from ma_boot.report.timeline.events import printable

    lines: list[str] = []
    for ledger in _by_time(ledgers):
        starts = all_starts(ledger)
        lines += [f"{ledger.entries[0].job}: {end_of_starts(starts)}", *starts_lines(starts)]
    return [printable(line) for line in lines]


def ledger_document(ledgers: Mapping[str, JobLedger]) -> dict[str, Any]:
    """Returns the starts of each job as a JSON value."""
    from ma_boot.report.support.document import FORMAT
    from ma_boot.report.timeline.all_starts import all_starts, starts_document

    jobs = [
        {"job": ledger.entries[0].job, "all_starts": starts_document(all_starts(ledger))}
        for ledger in _by_time(ledgers)
    ]
    return {"format": FORMAT, "jobs": jobs}


def _by_time(ledgers: Mapping[str, JobLedger]) -> list[JobLedger]:
    return sorted(ledgers.values(), key=lambda ledger: max(entry.at for entry in ledger.entries))
