"""`ma_boot checkpoint ...`: lists, verifies, downloads and removes checkpoints, without a job."""

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
from ma_boot.node.checkpoints.by_hand import StoredCheckpoints
from ma_boot.node.checkpoints.options import options_of
from ma_boot.node.checkpoints.records.documents import CheckpointRow
from ma_boot.node.checkpoints.records.manifest import Checkpoint
from ma_boot.node.checkpoints.records.retention import Leftover
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
    """Lists, verifies, downloads and removes the checkpoints of an output in OBS.

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
_step = click.option("--step", metavar="STEP", help="Use the newest complete checkpoint of this step.")


@_command
def list_(request: StoreRequest, as_json: bool) -> int:
    """Prints a line for each checkpoint, the newest first: complete, or incomplete and why.

    \b
    Example:
      ma_boot checkpoint list obs://bucket/checkpoints --json
    """
    with _errors():
        for stored, _ in _places(request):
            rows = list(stored.rows())
            if as_json:
                _print([json.dumps(_as_json(stored, row)) for row in rows])
            else:
                table = columns([_HEADER, *map(_cells, rows)]) if rows else []
                _print([f"{len(rows)} checkpoints in {stored.place}", *table])
    return 0


@_command
@_step
@click.option("--contents", is_flag=True, help="Read all objects, too, and compare their checksums.")
def verify(request: StoreRequest, step: str | None, contents: bool, as_json: bool) -> int:
    """Compares the objects of the newest complete checkpoint with its manifests.

    Exits with 65 if one is missing, has another size or was replaced, and with 66 if no checkpoint is
    complete.

    \b
    Example:
      ma_boot checkpoint verify path_mapping_config.py --step 1200 --contents
    """
    wrong: list[str] = []
    with _errors():
        for stored, _ in _places(request):
            chosen = _choose(stored, step)
            problems = stored.problems(chosen, contents)
            wrong += [f"{stored.place}{problem}" for problem in problems]
            if as_json:
                _print([json.dumps({**_identity(stored, chosen), "problems": problems})])
            elif not problems:
                advice = [f"  look at {line}" for line in stored.advice(chosen)]
                amount = f"{chosen.files} files, {size(chosen.size)}"
                _print([f"{chosen} in {stored.place} is complete: {amount}", *advice])
    if wrong:
        raise CheckpointDamaged(listed("not as it was published:", wrong))
    return 0


@_command
@_step
@click.option(
    "--to", metavar="DIR", required=True, shell_complete=directories, help="Where to put the files."
)
def fetch(request: StoreRequest, step: str | None, to: str, as_json: bool) -> int:
    """Downloads the newest complete checkpoint with the files of all nodes, and verifies their checksums.

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
        stored, _ = places[0]
        chosen = _choose(stored, step)
        say = partial(print_lines, descriptor=2)
        files, amount = stored.fetch(chosen, Path(to).absolute(), lambda now: None, say)
    if as_json:
        _print(
            [json.dumps({**_identity(stored, chosen), "directory": to, "fetched": files, "bytes": amount})]
        )
    else:
        _print([f"{chosen} is in {to}: {files} files, {size(amount)} downloaded"])
    return 0


@_command
@click.option(
    "--keep",
    type=Whole(1),
    metavar="N",
    help="Complete checkpoints to keep; default: as in the mapping, or all.",
)
@click.option(
    "--older-than",
    metavar="AGE",
    callback=parse_age,
    help="Also remove the newest start's files without a manifest, if they are older: 7d, 36h.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Print what would be removed; remove nothing.")
def prune(request: StoreRequest, keep: int | None, older_than: float, only_plan: bool, as_json: bool) -> int:
    """Removes all complete checkpoints but the newest N, and incomplete ones of earlier starts.

    Files of earlier starts that no manifest names are removed too. The checkpoint from which the newest start
    resumes is kept; without --older-than so are its own files, as it may be running.

    \b
    Example:
      ma_boot checkpoint prune obs://bucket/checkpoints --keep 3 --plan
    """
    with _errors():
        for stored, of_mapping in _places(request):
            old, leftovers = stored.find_superfluous(keep or of_mapping), stored.find_leftovers(older_than)
            rows: list[tuple[str, str, list[Leftover] | None]]
            rows = [(str(one.name), "one of the older complete checkpoints", None) for one in old.complete]
            rows += [(str(one.name), one.why_incomplete(), None) for one in old.incomplete]
            rows += [(name, "no manifest names them", files) for name, files in _by_step(leftovers).items()]
            if not only_plan:
                stored.remove(old.all, leftovers)
            action = "would be removed" if only_plan else "removed"
            _print([_pruned_line(stored, action, as_json, row=row) for row in rows])
            if not as_json:
                _print([f"{len(old.all)} checkpoints and {len(leftovers)} files without a manifest {action}"])
    return 0


def _by_step(leftovers: Sequence[Leftover]) -> dict[str, list[Leftover]]:
    """Returns files without a manifest by their step and node."""
    by_step: dict[str, list[Leftover]] = {}
    for leftover in leftovers:
        by_step.setdefault(f"{leftover.name}, node {leftover.node}", []).append(leftover)
    return by_step


def _pruned_line(
    stored: StoredCheckpoints, action: str, as_json: bool, row: tuple[str, str, list[Leftover] | None]
) -> str:
    """Returns a line for a checkpoint, or for the files of a step that are in none."""
    name, why, leftovers = row
    files, amount = len(leftovers or ()), sum(leftover.size for leftover in leftovers or ())
    if as_json:
        more = {} if leftovers is None else {"files": files, "bytes": amount}
        return json.dumps({"url": str(stored.place), "checkpoint": name, "why": why, **more})
    return f"{name}: {'' if leftovers is None else f'{files} files, {size(amount)} '}{action}: {why}"


def _places(request: StoreRequest) -> list[tuple[StoredCheckpoints, int | None]]:
    """Returns the checkpoints of each output that WHERE names, and how many of them its mapping keeps.

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
    return [(StoredCheckpoints(store, url, cancel, patience), keep) for url, keep in outputs]


@contextmanager
def _errors() -> Iterator[None]:
    """Converts the errors of the block into errors with an exit code."""
    try:
        yield
    except PathMappingError as error:
        raise StoreUnavailable(with_store_hint(str(error))) from error
    except OSError as error:
        raise CannotCreate(str(error)) from error


def _choose(stored: StoredCheckpoints, step: str | None) -> Checkpoint:
    chosen = stored.choose(step)
    if chosen is None:
        of = f" of step {step}" if step else ""
        raise InputMissing(
            f"no complete checkpoint{of} in {stored.place}: ma_boot checkpoint list shows the checkpoints"
        )
    return chosen


def _identity(stored: StoredCheckpoints, chosen: Checkpoint) -> dict[str, Any]:
    return {"url": str(stored.place), "attempt": str(chosen.name.attempt), "step": chosen.step}


def _as_json(stored: StoredCheckpoints, row: CheckpointRow) -> dict[str, Any]:
    checkpoint = row.checkpoint
    return {
        "url": str(stored.place),
        "attempt": str(row.listed.name.attempt),
        "step": row.step,
        "complete": checkpoint is not None,
        "why": row.why,
        "published": row.written or None,
        "nodes": checkpoint.nodes if checkpoint else None,
        "ranks": checkpoint.world_size if checkpoint else None,
        "files": checkpoint.files if checkpoint else None,
        "bytes": checkpoint.size if checkpoint else None,
        "layout": checkpoint.layout if checkpoint else None,
    }


def _cells(row: CheckpointRow) -> tuple[str, ...]:
    checkpoint, attempt = row.checkpoint, str(row.listed.name.attempt)
    if checkpoint is None:
        return row.step, attempt, "", "", "", "", f"incomplete: {row.why}"
    written = row.written.replace("T", " ").rstrip("Z")
    amounts = str(checkpoint.nodes), str(checkpoint.files), size(checkpoint.size)
    return row.step, attempt, written, *amounts, "complete"


def _print(lines: Sequence[str]) -> None:
    if lines:
        print_lines("\n".join(lines))
