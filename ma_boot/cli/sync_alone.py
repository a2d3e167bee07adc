"""What `ma_boot sync ...` does: a path mapping's moves, planned or made, without a job."""

from __future__ import annotations

import json
import math
import os
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ma_boot.errors import CannotCreate, InputMissing, listed
from ma_boot.modelarts import read_job
from ma_boot.node.transfers import (
    as_ours,
    bring_home,
    inputs_arriving,
    load_mapping,
    part_of,
    places_of,
    store_of,
)
from ma_boot.processes import SignalInbox
from ma_boot.reporting.console import Console, is_interactive, print_lines
from ma_boot.reporting.journal import Journal
from path_mapping.errors import PathMappingError
from path_mapping.localfs import printable
from path_mapping.mapping import PathMapping, Route, Shard
from path_mapping.planning import (
    REFUSE,
    RouteScan,
    SpaceNeed,
    Step,
    free_space,
    scan_download,
    scan_upload,
    shortages,
)
from path_mapping.stores import Store
from path_mapping.transfer import listing

_BATCH = 1000  # lines that are printed at once


@dataclass(frozen=True)
class SyncRequest:
    """What the user asked of any of these commands; `shard` overrides this node's part of the inputs."""

    mapping: str
    obs_root: Optional[str]
    checksum: bool
    shard: Optional[Shard]
    stall_timeout: float


def plan(environ: Mapping[str, str], request: SyncRequest, as_json: bool) -> int:
    """Prints what would become of each file; raises what a download would end with at once."""
    job_part, found, store = _opened(environ, request)
    planned = _Planned(store, request.shard or job_part)
    _print(planned.lines(found, as_json))
    planned.judge()
    return 0


def download(environ: Mapping[str, str], request: SyncRequest) -> int:
    """Fetches the inputs."""
    job_part, found, store = _opened(environ, request)
    with SignalInbox() as inbox, Console(interactive=is_interactive(environ)) as console:
        journal = Journal(console)
        arriving = inputs_arriving(found.inputs, Path.cwd(), store, journal, inbox, request.shard or job_part)
        with arriving:
            pass
    return 0


def upload(environ: Mapping[str, str], request: SyncRequest) -> int:
    """Stores the outputs."""
    _, found, store = _opened(environ, request)
    with SignalInbox() as inbox, Console(interactive=is_interactive(environ)) as console:
        journal = Journal(console)
        lost = bring_home(found.outputs, Path.cwd(), store, journal, inbox, math.inf, all_expected=True)
        inbox.check()
    if lost is not None:
        raise lost
    return 0


def _opened(environ: Mapping[str, str], request: SyncRequest) -> Tuple[Shard, PathMapping, Store]:
    """This node's part by the job's environment, the mapping, and the store."""
    job = read_job(environ, os.uname().nodename)
    mapping = load_mapping(request.mapping, places_of(job))
    store = store_of(environ, os.getcwd(), request.obs_root, request.stall_timeout)
    if request.checksum:
        mapping = PathMapping(
            tuple(replace(route, checksum=True) for route in mapping.inputs),
            tuple(replace(route, checksum=True) for route in mapping.outputs),
        )
    return part_of(job), mapping, store


class _Planned:
    """The steps of a mapping as they come, counted."""

    def __init__(self, store: Store, part: Shard) -> None:
        self._lister = partial(listing, store, threading.Event())
        self._part = part
        self._totals: Dict[str, List[int]] = {}
        self._missing: List[str] = []
        self._refused = 0
        self._needs: Dict[Path, SpaceNeed] = {}

    def lines(self, mapping: PathMapping, as_json: bool) -> Iterator[str]:
        """A line for each file, then the totals; a section for each route."""
        try:
            for route in mapping.inputs:
                one = scan_download(route, Path.cwd(), self._lister, self._part)
                yield from self._route("input", route, one, as_json)
            for route in mapping.outputs:
                notices: List[str] = []
                one = scan_upload(route, Path.cwd(), self._lister, notices.append, lambda *_: True)
                yield from self._route("output", route, one, as_json)
                yield from (json.dumps({"notice": text}) if as_json else text for text in notices)
        except PathMappingError as error:
            raise as_ours(error) from error
        if as_json:
            totals = {action: {"files": n, "bytes": size} for action, (n, size) in self._totals.items()}
            yield json.dumps({"totals": totals})
        else:
            yield f"in all: {_counted(self._totals)}"

    def _route(self, section: str, route: Route, one: Optional[RouteScan], as_json: bool) -> Iterator[str]:
        way = "<-" if section == "input" else "->"
        if one is None:
            if section == "input" and route.required:
                self._missing.append(str(route.remote))
            text = f"{section} {route.local} {way} {route.remote}: nothing there"
            yield json.dumps({"section": section, "local": route.local, "missing": True}) if as_json else text
            return
        if not as_json:
            yield f"{section} {route.local} {way} {route.remote}:"
        totals: Dict[str, List[int]] = {}
        for step in one.steps:
            self._count(totals, step, one.ends.local, section)
            yield _as_json(section, route, step) if as_json else _as_text(step)
        if not as_json:
            yield f"  {_counted(totals)}"

    def _count(self, totals: Dict[str, List[int]], step: Step, target: Path, section: str) -> None:
        for several in (totals, self._totals):
            counts = several.setdefault(step.action, [0, 0])
            counts[0] += 1
            counts[1] += step.size
        if section == "input" and step.action == REFUSE:
            self._refused += 1
        if section == "input" and step.action == "copy":
            before = step.local.size if step.local is not None and step.local.kind == "file" else None
            self._needs[target] = self._needs.get(target, SpaceNeed()).plus(step.size, before)

    def judge(self) -> None:
        """Raises what a download would end with before its first byte."""
        if self._missing:
            raise InputMissing(listed("inputs that are not in OBS:", self._missing))
        if self._refused:
            raise CannotCreate(f"{self._refused} objects of the inputs would be refused: see above")
        problems = shortages(self._needs, {path: free_space(path) for path in self._needs})
        if problems:
            raise CannotCreate(listed("not enough space:", problems))


def _as_json(section: str, route: Route, step: Step) -> str:
    return json.dumps(
        {
            "section": section,
            "local": route.local,
            "name": step.name.encode("utf-8", "backslashreplace").decode("utf-8"),
            "action": step.action,
            "bytes": step.size,
            "reason": step.reason,
        },
        ensure_ascii=False,
    )


def _as_text(step: Step) -> str:
    return f"  {step.action:6} {step.size:>15,}  {printable(step.name)}  ({step.reason})"


def _counted(totals: Mapping[str, Sequence[int]]) -> str:
    parts = [f"{action} {files:,} ({size / 1e6:,.1f} MB)" for action, (files, size) in sorted(totals.items())]
    return ", ".join(parts) or "nothing to do"


def _print(lines: Iterator[str]) -> None:
    """Prints them in batches, also those that came before an error."""
    batch: List[str] = []
    try:
        for line in lines:
            batch.append(line)
            if len(batch) >= _BATCH:
                print_lines("\n".join(batch))
                batch.clear()
    finally:
        if batch:
            print_lines("\n".join(batch))
