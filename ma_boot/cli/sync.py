"""`ma_boot sync`: transfers by a path mapping without a job, their plans, and removal of left uploads."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Callable, Optional

import click

from ma_boot.cli.help import Group
from ma_boot.cli.options.click_types import parse_age
from ma_boot.cli.store_command import StoreRequest, store_command
from ma_boot.errors import CannotCreate, StoreUnavailable, listed
from ma_boot.node.transfers.downloads import downloading_inputs
from ma_boot.node.transfers.mapping import NodeTransfers, configured_store, load_mapping, upload_routes
from ma_boot.node.transfers.options import TransferOptions
from ma_boot.node.transfers.transfer_errors import to_boot_error
from ma_boot.node.transfers.uploads import (
    UploadTerms,
    check_output_access,
    ordinary_by_mapping,
    upload_outputs,
)
from ma_boot.platform.modelarts.job import read_job
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.console import Console, is_interactive, print_lines
from ma_boot.report.hints import with_store_hint
from ma_boot.report.journal import Journal
from ma_boot.wording import size
from path_mapping.errors import (
    CredentialsMissing,
    MissingInputs,
    NothingSelected,
    PathMappingError,
    StoreError,
    printable,
)
from path_mapping.mapping.routes import PathMapping, Route
from path_mapping.mapping.selection import Shard
from path_mapping.planning.plan import REFUSE, Step
from path_mapping.planning.route_scan import RouteScan, scan_download, scan_upload, space_problems
from path_mapping.stores.store import Store
from path_mapping.transfer.left_uploads import LeftUpload, abort_uploads, left_uploads
from path_mapping.workers.retry import RetriedStore, RetryPolicy

# Lines that are printed at once.
_BATCH_LINES = 1000
# Seconds for which a plan retries a request: it prints no line about retries, and its user waits for it.
PLAN_SECONDS = 10.0

# A route with its files; None if its input or output does not exist.
Scanned = tuple[Route, Optional[RouteScan]]

_NOTHING = "there is nothing to upload at these output paths:"


def _set_lines(store: Store, patience: RetryPolicy, as_json: bool, route: Route) -> Iterator[str]:
    """Yields the actions of the next start for the checkpoints of an output; none without `checkpoint`."""
    from ma_boot.node.checkpoints.by_hand import StoredCheckpoints, preview_start
    from ma_boot.node.checkpoints.options import options_of

    options = options_of(route)
    if options is None:
        return
    stored = StoredCheckpoints(store, route.remote, threading.Event(), patience)
    for action in preview_start(stored, route, options, Path.cwd()):
        if as_json:
            facts = {"section": "checkpoint", "local": route.local, **action._asdict()}
            yield json.dumps({**facts, "bytes": facts.pop("size")}, ensure_ascii=False)
        else:
            yield f"  {action.action:7} {action.size:>14,}  {printable(action.name)}  ({action.reason})"


def _policy_of_plan(request: StoreRequest) -> RetryPolicy:
    """Returns how long a plan retries: at most `PLAN_SECONDS`, and `--timeout` if it is shorter."""
    return RetryPolicy(min(request.timeout, PLAN_SECONDS))


def _parse_shard(ctx: click.Context, param: click.Parameter, value: str | None) -> Shard | None:
    """Parses `0/4`, the first of four shards; raises `click.BadParameter`."""
    if value is None:
        return None
    index, _, count = value.partition("/")
    if index.isdecimal() and count.isdecimal() and int(index) < int(count):
        return Shard(int(index), int(count))
    raise click.BadParameter(f"found {value!r}, expected e.g. 0/4, 1/4, 2/4 or 3/4")


@click.group(cls=Group)
def sync() -> None:
    """Transfers inputs and outputs by a path mapping, without a job.

    Relative local paths start in the current directory.

    \b
    Example:
      ma_boot sync plan path_mapping_config.py
    """


_command = partial(store_command, sync, "mapping", 600)
_of_files = _command(
    click.option(
        "--shard",
        metavar="I/N",
        callback=_parse_shard,
        help="This node's shard of inputs with `shard: true`.",
    ),
    click.option("--checksum", is_flag=True, help="Compare contents, not sizes and times."),
)


@_of_files
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line, the totals last.")
def plan(request: StoreRequest, shard: Shard | None, checksum: bool, as_json: bool) -> int:
    """Prints the action for each file with its reason; transfers nothing.

    Exits with 66 if an input does not exist, and with 73 if one would be refused or does not fit.

    \b
    Example:
      ma_boot sync plan path_mapping_config.py --shard 0/4
    """
    transfers = _open_transfers(request, shard, checksum)
    mapping, store = transfers.mapping, transfers.store
    patience = _policy_of_plan(request)
    retried = RetriedStore(store, patience=patience)
    notices: list[str] = []
    try:
        inputs = [
            (route, scan_download(route, Path.cwd(), retried.input_objects, shard=transfers.shard))
            for route in mapping.inputs
        ]
        belongs = ordinary_by_mapping(transfers)
        outputs = [
            (route, scan_upload(route, Path.cwd(), retried.listing, notice=notices.append, belongs=belongs))
            for route in upload_routes(transfers)
        ]
        set_lines = partial(_set_lines, store, patience, as_json)
        _print(_plan_lines(inputs, outputs, notices, as_json, set_lines))
    except PathMappingError as error:
        raise to_boot_error(error) from error
    _check_inputs(inputs, store)
    return 0


@_of_files
def download(request: StoreRequest, shard: Shard | None, checksum: bool) -> int:
    """Downloads the inputs, except for files that are already here.

    \b
    Example:
      ma_boot sync download path_mapping_config.py --obs-root obs
    """
    transfers = _open_transfers(request, shard, checksum)
    with SignalInbox() as inbox, Console(interactive=is_interactive(request.environ)) as console:
        downloading = downloading_inputs(transfers, Journal(console), inbox)
        # The block ends when all inputs have arrived.
        with downloading:
            pass
    return 0


@_of_files
def upload(request: StoreRequest, shard: Shard | None, checksum: bool) -> int:
    """Uploads the outputs, except for files that are already in OBS.

    \b
    Example:
      ma_boot sync upload path_mapping_config.py --checksum
    """
    transfers = _open_transfers(request, shard, checksum)
    with SignalInbox() as inbox, Console(interactive=is_interactive(request.environ)) as console:
        check_output_access(transfers, inbox)
        terms = UploadTerms(missing=_NOTHING, expected_stops=0)
        lost = upload_outputs(transfers, Journal(console), inbox, terms)
        inbox.check()
    if lost is not None:
        raise lost
    return 0


@_command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line, the totals last.")
@click.option("--plan", "only_plan", is_flag=True, help="Print what would be aborted; abort nothing.")
@click.option(
    "--older-than",
    metavar="AGE",
    callback=parse_age,
    help="Also abort uploads of other processes and nodes, if they are older: 7d, 36h.",
)
def prune(request: StoreRequest, older_than: float, only_plan: bool, as_json: bool) -> int:
    """Aborts multipart uploads below the outputs' URLs that killed runs have left.

    Their parts are in no listing, but they cost money. Without --older-than, only uploads are aborted that a
    killed run has noted beside the output: another process may still complete the others.

    \b
    Example:
      ma_boot sync prune path_mapping_config.py --plan --older-than 7d
    """
    transfers = _open_transfers(request)
    patience = _policy_of_plan(request) if only_plan else RetryPolicy(request.timeout)
    retried = RetriedStore(transfers.store, patience=patience)
    failed: list[str] = []
    counts: Counter[str] = Counter()

    def lines() -> Iterator[str]:
        for route in transfers.mapping.outputs:
            if not as_json:
                yield f"output {route.local} -> {route.remote}:"
            for leftover, error in _prune(route, retried, older_than, only_plan):
                if error is not None:
                    failed.append(f"{printable(f'obs://{route.remote.bucket}/{leftover.key}')}: {error}")
                counts[leftover.action] += 1
                yield _upload_as_json(route, leftover) if as_json else _upload_as_text(leftover)
        parts = [f"{action} {count:,}" for action, count in sorted(counts.items())]
        totals = f"in all: {', '.join(parts) or 'nothing to do'}"
        yield json.dumps({"totals": dict(counts)}) if as_json else totals

    try:
        _print(lines())
    except (StoreError, CredentialsMissing) as error:
        raise StoreUnavailable(with_store_hint(f"outputs: {error}")) from error
    if failed:
        raise StoreUnavailable(with_store_hint(listed("multipart uploads that were not aborted:", failed)))
    return 0


def _prune(
    route: Route, store: RetriedStore, older_than: float, only_plan: bool
) -> Iterator[tuple[LeftUpload, Exception | None]]:
    """Aborts the left uploads of an output; yields each as it is now, with the error if the abort failed."""
    left = list(left_uploads(route, Path.cwd(), store, older_than))
    if only_plan:
        yield from ((upload, None) for upload in left)
        return
    for upload, error in abort_uploads(route, Path.cwd(), store, left):
        yield (upload if error is None else upload._replace(action="fail")), error


def _open_transfers(
    request: StoreRequest, shard: Shard | None = None, checksum: bool = False
) -> NodeTransfers:
    """Opens the transfers of a mapping; the default shard is that of this node by the job's variables.

    Raises `ConfigError`.
    """
    job = read_job(request.environ, os.uname().nodename)
    mapping = load_mapping(request.where, job)
    options = TransferOptions(obs_root=request.obs_root, stall_timeout=request.stall_timeout)
    if checksum:
        mapping = PathMapping(
            tuple(route._replace(checksum=True) for route in mapping.inputs),
            tuple(route._replace(checksum=True) for route in mapping.outputs),
        )
    store = configured_store(options, request.environ, os.getcwd())
    own_shard = shard or Shard(job.node_rank, job.node_count)
    return NodeTransfers(mapping, store, Path.cwd(), own_shard, request.timeout)


def _plan_lines(
    inputs: Sequence[Scanned],
    outputs: Sequence[Scanned],
    notices: list[str],
    as_json: bool,
    set_lines: Callable[[Route], Iterator[str]],
) -> Iterator[str]:
    """Yields a headline for each route, a line for each checkpoint and each other file, then the totals."""
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    sections = [("input", "<-", *plan) for plan in inputs] + [("output", "->", *plan) for plan in outputs]
    for section, arrow, route, scan in sections:
        headline = f"{section} {route.local} {arrow} {route.remote}:"
        if scan is None:
            missing = {"section": section, "local": route.local, "missing": True}
            yield json.dumps(missing) if as_json else f"{headline} nothing there"
            yield from set_lines(route)
            continue
        if not as_json:
            yield headline
        yield from set_lines(route)
        for step in scan:
            yield _as_json(section, route, step) if as_json else _as_text(step)
        if not as_json:
            yield f"  {_totals(scan.files, scan.bytes)}"
        yield from (json.dumps({"notice": text}) if as_json else text for text in notices)
        notices.clear()
        files.update(scan.files)
        sizes.update(scan.bytes)
    totals = {action: {"files": count, "bytes": sizes[action]} for action, count in files.items()}
    yield json.dumps({"totals": totals}) if as_json else f"in all: {_totals(files, sizes)}"


def _check_inputs(inputs: Sequence[Scanned], store: Store) -> None:
    """Raises the errors with which a download would fail before its first byte."""
    missing = [str(route.remote) for route, scan in inputs if scan is None and route.required]
    if missing:
        raise to_boot_error(MissingInputs(missing), store)
    unselected = [
        f"{route.remote} (for {route.local}): {scan.why_nothing('object')}"
        for route, scan in inputs
        if scan is not None and scan.selects_nothing and route.required
    ]
    if unselected:
        raise to_boot_error(NothingSelected(unselected), store)
    scans = [scan for _, scan in inputs if scan is not None]
    refused = sum(scan.files[REFUSE] for scan in scans)
    if refused:
        raise CannotCreate(f"{refused} objects of the inputs would be refused: see above")
    problems = space_problems(scans)
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


def _start_time(upload: LeftUpload) -> str:
    """The local time of the start of an upload; empty if unknown."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(upload.began)) if upload.began else ""


def _upload_as_json(route: Route, upload: LeftUpload) -> str:
    return json.dumps(
        {
            "section": "output",
            "local": route.local,
            "name": upload.name,
            "upload": upload.upload,
            "action": upload.action,
            "begun": _start_time(upload) or None,
            "reason": f"begun by {upload.reason}",
        },
        ensure_ascii=False,
    )


def _upload_as_text(upload: LeftUpload) -> str:
    return (
        f"  {upload.action:6} {_start_time(upload):>19}  {printable(upload.name)}  (begun by {upload.reason})"
    )


def _totals(files: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    parts = [f"{action} {count:,} ({size(sizes[action])})" for action, count in sorted(files.items())]
    return ", ".join(parts) or "nothing to do"


def _print(lines: Iterator[str]) -> None:
    """Prints the lines in batches, even those before an error."""
    batch: list[str] = []
    try:
        for line in lines:
            batch.append(line)
            if len(batch) >= _BATCH_LINES:
                print_lines("\n".join(batch))
                batch.clear()
    finally:
        if batch:
            print_lines("\n".join(batch))
