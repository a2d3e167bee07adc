"""`ma_boot checkpoint ...`: lists, verifies, fetches and removes checkpoint sets, without a job."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options.click_types import Whole, directories, parse_age
from ma_boot.cli.store_command import StoreRequest, store_command
from ma_boot.errors import (
    CannotCreate,
    CheckpointDamaged,
    ConfigError,
    InputMissing,
    StoreUnavailable,
    UsageError,
    listed,
)
from ma_boot.node.checkpoints.by_hand import SetsByHand
from ma_boot.node.checkpoints.manifest import CheckpointSet
from ma_boot.node.checkpoints.options import options_of
from ma_boot.node.checkpoints.retention import Leftover
from ma_boot.node.checkpoints.sets import SetRow
from ma_boot.node.transfers.mapping import configured_store, load_mapping
from ma_boot.node.transfers.options import TransferOptions
from ma_boot.platform.modelarts.job import read_job
from ma_boot.report.console import print_lines
from ma_boot.report.hints import with_store_hint
from ma_boot.wording import columns, size
from path_mapping.errors import PathMappingError
from path_mapping.mapping.routes import ObsUrl
from path_mapping.workers.retry import RetryPolicy

_HEADER = ("STEP", "ATTEMPT", "PUBLISHED (UTC)", "NODES", "FILES", "SIZE", "STATE")


@click.group(cls=Group)
def checkpoint() -> None:
    """Lists, verifies, fetches and removes the checkpoint sets of an output in OBS.

    WHERE is the output's URL, or a path mapping with outputs that have `checkpoint`.

    \b
    Example:
      ma_boot checkpoint list obs://bucket/checkpoints
    """


_command = store_command(
    checkpoint,
    "where",
    60,
    click.option("--json", "as_json", is_flag=True, help="One JSON document per line."),
)
_step = click.option("--step", metavar="STEP", help="Use the newest whole set of this step.")


@_command
def list_(request: StoreRequest, as_json: bool) -> int:
    """Prints a line for each set, the newest first: whether it is whole, and if not, why.

    \b
    Example:
      ma_boot checkpoint list obs://bucket/checkpoints --json
    """
    with _errors():
        for sets, _ in _places(request):
            rows = list(sets.rows())
            if as_json:
                _print([json.dumps(_as_json(sets, row)) for row in rows])
            else:
                table = columns([_HEADER, *map(_cells, rows)]) if rows else []
                _print([f"{len(rows)} sets in {sets.place}", *table])
    return 0


@_command
@_step
@click.option("--contents", is_flag=True, help="Read all objects, too, and compare their checksums.")
def verify(request: StoreRequest, step: str | None, contents: bool, as_json: bool) -> int:
    """Compares the objects of the newest whole set with its manifests.

    Exits with 65 if one is missing, has another size or was replaced, and with 66 if no set is whole.

    \b
    Example:
      ma_boot checkpoint verify path_mapping_config.py --step 1200 --contents
    """
    wrong: list[str] = []
    with _errors():
        for sets, _ in _places(request):
            chosen = _chosen(sets, step)
            problems = sets.problems(chosen, contents)
            wrong += [f"{sets.place}{problem}" for problem in problems]
            if as_json:
                _print([json.dumps({**_named(sets, chosen), "problems": problems})])
            elif not problems:
                advice = [f"  look at {line}" for line in sets.advice(chosen)]
                whole = f"{chosen} in {sets.place} is whole: {chosen.files} files, {size(chosen.size)}"
                _print([whole, *advice])
    if wrong:
        raise CheckpointDamaged(listed("not as it was published:", wrong))
    return 0


@_command
@_step
@click.option(
    "--to", metavar="DIR", required=True, shell_complete=directories, help="Where to put the files."
)
def fetch(request: StoreRequest, step: str | None, to: str, as_json: bool) -> int:
    """Downloads the newest whole set with the files of all nodes, each compared with its checksum.

    Other steps that DIR has are moved aside, as at the start of a job.

    \b
    Example:
      ma_boot checkpoint fetch obs://bucket/checkpoints --to checkpoints
    """
    with _errors():
        places = _places(request)
        if len(places) > 1:
            raise UsageError(
                f"{request.where} has {len(places)} outputs with checkpoints: name the URL of one"
            )
        sets, _ = places[0]
        chosen = _chosen(sets, step)
        say = partial(print_lines, descriptor=2)
        files, amount = sets.fetch(chosen, Path(to).absolute(), lambda now: None, say)
    if as_json:
        _print([json.dumps({**_named(sets, chosen), "directory": to, "fetched": files, "bytes": amount})])
    else:
        _print([f"{chosen} is in {to}: {files} files, {size(amount)} fetched"])
    return 0


@_command
@click.option(
    "--keep",
    type=Whole(1),
    metavar="N",
    help="Whole sets to keep; default: as in the mapping, or all.",
)
@click.option(
    "--older-than",
    metavar="AGE",
    callback=parse_age,
    help="Also remove the newest start's files without a set, if they are older: 7d, 36h.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Print what would be removed; remove nothing.")
def prune(request: StoreRequest, keep: int | None, older_than: float, only_plan: bool, as_json: bool) -> int:
    """Removes all whole sets but the newest N, and what earlier starts of the job could not complete.

    These are sets without the manifests of all nodes, and files that no manifest names. What the newest start
    goes on from is kept; so are, without --older-than, its own files: it may be running.

    \b
    Example:
      ma_boot checkpoint prune obs://bucket/checkpoints --keep 3 --plan
    """
    with _errors():
        for sets, of_mapping in _places(request):
            old, leftovers = sets.superfluous(keep or of_mapping), sets.leftovers(older_than)
            rows: list[tuple[str, str, list[Leftover] | None]]
            rows = [(str(whole.name), "one of the older whole sets", None) for whole in old.whole]
            rows += [(str(broken.name), broken.why_not(), None) for broken in old.broken]
            rows += [(name, "no manifest names them", files) for name, files in _by_step(leftovers).items()]
            if not only_plan:
                sets.remove([*old.whole, *old.broken], leftovers)
            what = "would be removed" if only_plan else "removed"
            _print([_pruned(sets, what, as_json, *row) for row in rows])
            if not as_json:
                number = len(old.whole) + len(old.broken)
                _print([f"{number} sets and {len(leftovers)} files of no set {what}"])
    return 0


def _by_step(leftovers: Sequence[Leftover]) -> dict[str, list[Leftover]]:
    """Files of no set by the step and the node that they are of."""
    by_step: dict[str, list[Leftover]] = {}
    for leftover in leftovers:
        by_step.setdefault(f"{leftover.name}, node {leftover.node}", []).append(leftover)
    return by_step


def _pruned(
    sets: SetsByHand, what: str, as_json: bool, name: str, why: str, leftovers: list[Leftover] | None
) -> str:
    """A line for a set, or for the files of a step that are in no set."""
    files, amount = len(leftovers or ()), sum(leftover.size for leftover in leftovers or ())
    if as_json:
        more = {} if leftovers is None else {"files": files, "bytes": amount}
        return json.dumps({"url": str(sets.place), "set": name, "why": why, **more})
    return f"{name}: {'' if leftovers is None else f'{files} files, {size(amount)} '}{what}: {why}"


def _places(request: StoreRequest) -> list[tuple[SetsByHand, int | None]]:
    """The sets of each output that is meant, and how many of them its mapping keeps.

    Raises `ConfigError` and `UsageError`.
    """
    options = TransferOptions(obs_root=request.obs_root, stall_timeout=request.stall_timeout)
    outputs: list[tuple[ObsUrl, int | None]]
    if "://" in request.where:
        try:
            outputs = [(ObsUrl.typed(request.where), None)]
        except ValueError as error:
            raise UsageError(str(error)) from error
    else:
        mapping = load_mapping(request.where, read_job(request.environ, os.uname().nodename))
        of_routes = [(route.remote, options_of(route)) for route in mapping.outputs]
        outputs = [(url, options.keep) for url, options in of_routes if options is not None]
        if not outputs:
            raise ConfigError(f"{request.where} has no output with 'checkpoint'")
    store = configured_store(options, request.environ, os.getcwd())
    cancel, patience = threading.Event(), RetryPolicy(request.timeout)
    return [(SetsByHand(store, url, cancel, patience), keep) for url, keep in outputs]


@contextmanager
def _errors() -> Iterator[None]:
    """Turns the errors of the block into those with an exit code."""
    try:
        yield
    except PathMappingError as error:
        raise StoreUnavailable(with_store_hint(str(error))) from error
    except OSError as error:
        raise CannotCreate(str(error)) from error


def _chosen(sets: SetsByHand, step: str | None) -> CheckpointSet:
    chosen = sets.chosen(step)
    if chosen is None:
        of = f" of step {step}" if step else ""
        raise InputMissing(f"no whole set{of} in {sets.place}: ma_boot checkpoint list shows the sets")
    return chosen


def _named(sets: SetsByHand, chosen: CheckpointSet) -> dict[str, Any]:
    return {"url": str(sets.place), "attempt": str(chosen.name.attempt), "step": chosen.step}


def _as_json(sets: SetsByHand, row: SetRow) -> dict[str, Any]:
    whole = row.whole
    return {
        "url": str(sets.place),
        "attempt": str(row.known.name.attempt),
        "step": row.step,
        "whole": whole is not None,
        "why": row.why,
        "published": row.written or None,
        "nodes": whole.nodes if whole else None,
        "ranks": whole.world if whole else None,
        "files": whole.files if whole else None,
        "bytes": whole.size if whole else None,
        "layout": whole.layout if whole else None,
    }


def _cells(row: SetRow) -> tuple[str, ...]:
    whole, attempt = row.whole, str(row.known.name.attempt)
    if whole is None:
        return row.step, attempt, "", "", "", "", f"not whole: {row.why}"
    written = row.written.replace("T", " ").rstrip("Z")
    return row.step, attempt, written, str(whole.nodes), str(whole.files), size(whole.size), "whole"


def _print(lines: Sequence[str]) -> None:
    if lines:
        print_lines("\n".join(lines))
