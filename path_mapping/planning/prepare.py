"""Prepares a transfer: what is impossible is refused before the first byte."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, List, NamedTuple, Sequence

from path_mapping.errors import MissingInputs, NoSpace, UnsafeTarget
from path_mapping.mapping import PathMapping, Route, Shard, overlaps
from path_mapping.planning.compare import LocalEntry
from path_mapping.planning.prepared_transfer import PreparedTransfer
from path_mapping.planning.route_scan import (
    Check,
    Lister,
    scan_download,
    scan_upload,
    space_problems,
)


class UploadChoice(NamedTuple):
    """Which files of the outputs are uploaded now, and in which order.

    `listed`: the target is listed; else the record alone says what it has. `hurry`: there may not be enough
    time, so the newest and smallest files go first. `wanted` returns whether the file at a path may be
    uploaded. `settled`: a file that changes after it was listed is left to a later upload. `recorded`: what
    is sent is recorded beside the output.
    """

    listed: bool = True
    hurry: bool = False
    wanted: Callable[[str, LocalEntry], bool] = lambda path, local: True
    settled: bool = False
    recorded: bool = True


def prepare_downloads(
    routes: Sequence[Route],
    base: Path,
    lister: Lister,
    shard: Shard,
    check: Check,
    recorded: bool,
) -> PreparedTransfer:
    """Prepares all inputs; writes nothing but records, and these only if they are to be `recorded`.

    Raises:
        MissingInputs: Required inputs do not exist.
        UnsafeTarget: Keys cannot be files below their target, or inputs overlap.
        NoSpace: A disk is too small.
        StoreError: A listing failed.
    """
    absolute = tuple(Route(str(route.path(base)), route.remote) for route in routes)
    _refuse_overlaps(PathMapping(absolute, ()))
    scans = [scan_download(route, base, lister, shard, check, recorded) for route in routes]
    missing = [str(route.remote) for route, scan in zip(routes, scans) if scan is None and route.required]
    if missing:
        raise MissingInputs(missing)
    prepared = PreparedTransfer(routes, scans, check)
    try:
        if prepared.refused:
            raise UnsafeTarget([f"{one.target}: {one.error}" for one in prepared.refused])
        problems = space_problems(scan for scan in scans if scan is not None)
        if problems:
            raise NoSpace(problems)
    except BaseException:
        prepared.close()
        raise
    return prepared


def prepare_uploads(
    routes: Sequence[Route],
    base: Path,
    lister: Lister,
    choice: UploadChoice,
    check: Check,
) -> PreparedTransfer:
    """Prepares all outputs. What cannot be uploaded is in `blocked`, and stops nothing else.

    Raises:
        UnsafeTarget: Outputs overlap.
    """
    _refuse_overlaps(PathMapping((), tuple(routes)))
    notices: List[str] = []
    used = lister if choice.listed else None
    scans = [
        scan_upload(route, base, used, notices.append, choice.wanted, check, choice.recorded)
        for route in routes
    ]
    prepared = PreparedTransfer(routes, scans, check)
    prepared.notices[:0] = notices
    return prepared


def _refuse_overlaps(mapping: PathMapping) -> None:
    problems = overlaps(mapping)
    if problems:
        raise UnsafeTarget(problems)
