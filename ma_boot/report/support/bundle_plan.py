"""Choice of the files of a bundle: what support asks for, the most important first. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ma_boot.report.support.log_tree import FoundFile
from ma_boot.report.timeline.job_timeline import Timeline

# Bytes of all contents; the limit of the file is 50 MB, which has also the names.
MOST_BYTES = 48_000_000
# Bytes of each file, from its end.
MOST_OF_EVENTS = 8_000_000
MOST_OF_FAILURE = 2_000_000
MOST_OF_LOG = 4_000_000
MOST_OF_PLOG = 1_000_000
MOST_FILES = 1000
_PLOG = r"plog-(\d{1,9})_.*\.log"


class BundledFile(NamedTuple):
    """A file of the bundle; `limit` is the number of bytes that are taken from its end."""

    source: FoundFile
    limit: int

    @property
    def taken(self) -> int:
        """Bytes that are read."""
        return min(self.source.bytes, self.limit)


class BundlePlan(NamedTuple):
    """Files of a bundle, and those for which it has no room."""

    files: tuple[BundledFile, ...]
    left_out: tuple[FoundFile, ...]


def plan_bundle(
    files: Iterable[FoundFile],
    failed_logs: Collection[str],
    failed_pids: Collection[int],
    *,
    room: int = MOST_BYTES,
) -> BundlePlan:
    """Returns failure files, events, logs of failed processes and plogs, in this order, as far as they fit.

    `failed_logs` are names of log files; the plogs of `failed_pids` come before others, newer ones first.
    """
    ranked: list[tuple[tuple[int, float], BundledFile]] = []
    for file in files:
        kind = _kind(os.path.basename(file.name), failed_logs, failed_pids)
        if kind is not None:
            order, limit = kind
            ranked.append(((order, -file.modified), BundledFile(file, limit)))
    taken: list[BundledFile] = []
    left_out: list[FoundFile] = []
    for _, wanted in sorted(ranked, key=lambda one: (one[0], one[1].source.name)):
        fitting = wanted._replace(limit=min(wanted.limit, room))
        if len(taken) == MOST_FILES or (wanted.taken and not fitting.limit):
            left_out.append(wanted.source)
            continue
        taken.append(fitting)
        room -= fitting.taken
    return BundlePlan(tuple(taken), tuple(left_out))


def _kind(name: str, failed_logs: Collection[str], failed_pids: Collection[int]) -> tuple[int, int] | None:
    """Returns the place in the order and the limit of a file; None for one that is not wanted."""
    plog = re.fullmatch(_PLOG, name)
    if plog is not None:
        return (3 if int(plog[1]) in failed_pids else 4), MOST_OF_PLOG
    if re.search(r"-failure(?:-ma_boot)?(?:\.\d{1,4})?\.json$", name):
        return 0, MOST_OF_FAILURE
    if re.search(r"-events(?:\.\d{1,4})?\.jsonl$", name):
        return 1, MOST_OF_EVENTS
    # Logs of earlier attempts have a number: `x.1.txt`.
    current = re.sub(r"\.\d{1,4}(?=\.\w+$)", "", name)
    return (2, MOST_OF_LOG) if failed_logs and {name, current} & {*failed_logs} else None


def failed_logs_of(timeline: Timeline) -> set[str]:
    """Returns the names of the log files of processes that did not end well."""
    processes = [process for _, run in timeline.all_runs() for process in run.processes]
    named = timeline.outcome.process
    bad = [process for process in processes if process.code != 0]
    bad += [named] if named is not None else []
    return {os.path.basename(process.log_file) for process in bad if process.log_file}
