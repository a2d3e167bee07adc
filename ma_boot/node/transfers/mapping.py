"""Transfers of a node: its options, its path mapping and the store.

Most of it runs in every job, so the modules that move files are imported in functions only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Callable, NamedTuple

from ma_boot.errors import CommandNotFound, ConfigError
from ma_boot.node.transfers.options import TransferOptions
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.redact import remember_secrets
from ma_boot.report.hints import with_store_hint
from ma_boot.report.journal import Journal
from path_mapping import errors as mapping_errors

if TYPE_CHECKING:
    from ma_boot.node.transfers.shared_outputs import SharedOutputs, UploadPeers
    from path_mapping.mapping.routes import PathMapping, Route
    from path_mapping.mapping.selection import Shard
    from path_mapping.stores.store import Store

MOST_ROUTES = 50  # in the event


class NodeTransfers(NamedTuple):
    """Path mapping of this node, with its store.

    Relative local paths are relative to `base`; `shard` is this node's share of sharded inputs. A failed
    request is retried for `retry_seconds`. `take_over`: no other job publishes checkpoints there any more.
    `shared` are the outputs that all nodes upload to the same URL, None without any.
    """

    mapping: PathMapping
    store: Store
    base: Path
    shard: Shard
    retry_seconds: float = TransferOptions().download_timeout
    take_over: bool = False
    shared: SharedOutputs | None = None


def inputs_of(transfers: NodeTransfers | None) -> tuple[Route, ...]:
    """Returns the inputs of a node, none without a mapping."""
    return tuple(transfers.mapping.inputs) if transfers is not None else ()


def outputs_of(transfers: NodeTransfers | None) -> tuple[Route, ...]:
    """Returns the outputs of a node, none without a mapping."""
    return tuple(transfers.mapping.outputs) if transfers is not None else ()


def upload_routes(transfers: NodeTransfers | None) -> tuple[Route, ...]:
    """Returns the outputs with the URLs for files that are in no checkpoint.

    All nodes publish checkpoints below one URL, often under the same names. So each of several nodes has a
    directory of its own there for its other files.
    """
    routes = outputs_of(transfers)
    if transfers is None or transfers.shard.count < 2 or all(route.more is None for route in routes):
        return routes
    from path_mapping.mapping.routes import ObsUrl

    return tuple(
        route
        if route.more is None
        else route._replace(
            remote=ObsUrl(route.remote.bucket, f"{route.remote.prefix}node-{transfers.shard.index}/")
        )
        for route in routes
    )


def record_routes(transfers: NodeTransfers | None, journal: Journal) -> None:
    """Writes the event with the routes; none without a mapping."""
    if transfers is not None:
        inputs, outputs = (
            [[route.local, str(route.remote)] for route in routes[:MOST_ROUTES]]
            for routes in (inputs_of(transfers), outputs_of(transfers))
        )
        journal.event("routes", inputs=inputs, outputs=outputs)


def job_transfers(
    options: TransferOptions,
    environ: Mapping[str, str],
    cwd: str,
    *,
    job: JobEnvironment,
    base: str,
    announce: Callable[[str], None] | None = None,
) -> NodeTransfers | None:
    """Reads the mapping and opens its store; None without a mapping, or for an empty one.

    Files in options are relative to `cwd`, local paths in the mapping to `base`. `announce` reports a wait
    for renewed credentials.

    Raises:
        ConfigError: the mapping or the configuration of the store is invalid or incomplete.
    """
    mapping = job_mapping(options.path_mapping, cwd, job)
    if mapping is None or not any(mapping):
        return None
    from path_mapping.mapping.selection import Shard

    store = configured_store(options, environ, cwd, announce)
    shard = Shard(job.node_rank, job.node_count)
    return NodeTransfers(
        mapping,
        store,
        Path(base),
        shard=shard,
        retry_seconds=options.download_timeout,
        take_over=options.take_over,
    )


def job_mapping(name: str | None, cwd: str, job: JobEnvironment) -> PathMapping | None:
    """Returns the job's path mapping, None without a name; its file is searched for like the training script.

    Raises `ConfigError` with all its mistakes.
    """
    if name is None:
        return None
    try:
        # `ma_boot sync` needs no other part of this module.
        from ma_boot.node.environment.command import find_file

        return load_mapping(find_file(name, cwd, job.job_dir), job)
    except CommandNotFound as error:
        raise ConfigError(f"--path-mapping {error}") from error


def with_shared_outputs(
    transfers: NodeTransfers, options: TransferOptions, cwd: str, job: JobEnvironment, peers: UploadPeers
) -> NodeTransfers:
    """Returns the transfers with the shared outputs of a job of several nodes, if it has any.

    Checkpoints of several nodes belong below one URL, so their outputs are not shared ones.
    """
    routes = _with_same_url(transfers, options, cwd, job)
    if not routes:
        return transfers
    from ma_boot.node.transfers.shared_outputs import SharedOutputs
    from path_mapping.planning.shared_target import SharedTarget

    target = SharedTarget(routes, f"node-{job.node_rank}", peers.announce)
    return transfers._replace(shared=SharedOutputs(routes, job.node_count, target, peers))


def _with_same_url(
    transfers: NodeTransfers, options: TransferOptions, cwd: str, job: JobEnvironment
) -> list[Route]:
    """Returns the outputs whose URL does not depend on the node."""
    outputs = outputs_of(transfers)
    if job.node_count < 2 or not outputs:
        return []
    other = job_mapping(options.path_mapping, cwd, job._replace(node_rank=job.node_rank + 1))
    pairs = zip(outputs, other.outputs if other else ())
    return [mine for mine, theirs in pairs if mine.remote == theirs.remote and mine.more is None]


def load_mapping(file: str, job: JobEnvironment) -> PathMapping:
    """Reads the path mapping in a file, with this node's values of the placeholders.

    Files are transferred once per node, so `{rank}` is the node's first rank. It is counted, as the inputs
    are downloaded before there is a rank table. Raises `ConfigError` with all mistakes of the file.
    """
    from ma_boot.node.caches.options import EXTENSION
    from path_mapping.mapping.mapping_file import read_mapping

    first_rank = job.node_rank * (job.device_count or 1)
    values = {"job": job.name, "node": str(job.node_rank), "rank": str(first_rank)}
    try:
        return read_mapping(Path(file), values, EXTENSION)
    except mapping_errors.MappingInvalid as error:
        raise ConfigError(str(error)) from error


def configured_store(
    options: TransferOptions,
    environ: Mapping[str, str],
    cwd: str,
    announce: Callable[[str], None] | None = None,
) -> Store:
    """Opens OBS as the environment configures it, or the directory `--obs-root`.

    Raises `ConfigError` with everything that is missing.
    """
    from path_mapping.stores.access import Credentials, read_credentials
    from path_mapping.stores.open_store import open_store

    def read_and_remember(file: Path) -> Credentials:
        keys = read_credentials(file)
        remember_secrets({"SK": keys.secret_key, "AK": keys.access_key, "TOKEN": keys.token or ""})
        return keys

    root = Path(cwd, options.obs_root) if options.obs_root else None
    try:
        return open_store(
            environ, root, stall_timeout=options.stall_timeout, announce=announce, read_file=read_and_remember
        )
    except mapping_errors.PathMappingError as error:
        raise ConfigError(with_store_hint(str(error))) from error
