"""Prepares a transfer in bounded memory: impossible transfers are refused before the first byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Callable, NamedTuple

from path_mapping.errors import MissingInputs, NoSpace, NothingSelected, UnsafeTarget
from path_mapping.mapping.routes import PathMapping, Route, overlaps
from path_mapping.mapping.selection import Shard
from path_mapping.planning.plan import LocalEntry
from path_mapping.planning.prepared_transfer import Diversions, PreparedTransfer
from path_mapping.planning.route_scan import Check, Lister, scan_download, scan_upload, space_problems
from path_mapping.planning.shared_target import HasContent, SharedTarget


class UploadChoice(NamedTuple):
    """Selection and order of the files that an upload sends.

    `listed`: the target is listed; else the record alone tells which files it has. `hurry`: there may not be
    enough time, so the newest and smallest files go first. `wanted` returns whether the file at a path may be
    uploaded. `settled`: a file that changes after it was listed is left to a later upload. `recorded`: sent
    files are recorded beside the output. `shared` has the URLs that other writers use, which are always
    listed; `others_done` as for `SharedTarget.redirected`, and then a listing that fails is an error.
    """

    listed: bool = True
    hurry: bool = False
    wanted: Callable[[str, LocalEntry], bool] = lambda path, local: True
    settled: bool = False
    recorded: bool = True
    shared: SharedTarget | None = None
    others_done: bool = False

    def lists(self, route: Route) -> bool:
        """Tells whether the target of an output is listed."""
        return self.listed or (self.shared is not None and self.shared.has(route))

    @property
    def aborts_left(self) -> bool:
        """True if the upload has the time to abort multipart uploads that earlier runs left."""
        return not (self.settled or self.hurry)


def prepare_downloads(
    routes: Sequence[Route],
    base: Path,
    lister: Lister,
    *,
    shard: Shard,
    check: Check,
    recorded: bool,
) -> PreparedTransfer:
    """Prepares all inputs; writes nothing but records, and these only if they are to be `recorded`.

    Raises:
        MissingInputs: Required inputs do not exist.
        UnsafeTarget: Keys cannot be files below their target, or inputs overlap.
        NothingSelected: The patterns of required inputs select none of their objects.
        NoSpace: A disk is too small.
        StoreError: A listing failed.
    """
    absolute = tuple(Route(str(route.path(base)), route.remote) for route in routes)
    _refuse_overlaps(PathMapping(absolute, ()))
    scans = [
        scan_download(route, base, lister, shard=shard, check=check, recorded=recorded) for route in routes
    ]
    missing = [str(route.remote) for route, scan in zip(routes, scans) if scan is None and route.required]
    if missing:
        raise MissingInputs(missing)
    prepared = PreparedTransfer(routes, scans, check)
    try:
        if prepared.findings.refused:
            raise UnsafeTarget(
                [f"{refusal.target}: {refusal.error}" for refusal in prepared.findings.refused]
            )
        _check_selection(prepared)
        problems = space_problems(scan for scan in scans if scan is not None)
        if problems:
            raise NoSpace(problems)
    except BaseException:
        prepared.close()
        raise
    return prepared


def _check_selection(prepared: PreparedTransfer) -> None:
    """Adds a notice for optional inputs without a selected object. Raises `NothingSelected` for others."""
    lines: dict[bool, list[str]] = {True: [], False: []}
    for route, why in prepared.unselected_inputs():
        lines[route.required].append(f"{route.remote} (for {route.local}): {why}")
    if lines[True]:
        raise NothingSelected(lines[True])
    for line in lines[False]:
        prepared.findings.notice(line)


def prepare_uploads(
    routes: Sequence[Route],
    base: Path,
    lister: Lister,
    *,
    choice: UploadChoice,
    check: Check,
    has_content: HasContent = lambda copy: False,
) -> PreparedTransfer:
    """Prepares all outputs. Files that cannot be uploaded are `blocked`, and do not hold up the others.

    Raises `UnsafeTarget` if outputs overlap, and the errors of `has_content`.
    """
    _refuse_overlaps(PathMapping((), tuple(routes)))
    notices: list[str] = []
    scans = [
        scan_upload(
            route,
            base,
            lister if choice.lists(route) else None,
            notice=None if choice.others_done else notices.append,
            wanted=choice.wanted,
            check=check,
            recorded=choice.recorded,
        )
        for route in routes
    ]
    diversions = Diversions(choice.shared, has_content, choice.others_done)
    prepared = PreparedTransfer(routes, scans, check, diversions)
    prepared.findings.notices[:0] = notices
    return prepared


def _refuse_overlaps(mapping: PathMapping) -> None:
    problems = overlaps(mapping)
    if problems:
        raise UnsafeTarget(problems)
