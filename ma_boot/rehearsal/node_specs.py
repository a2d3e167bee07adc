"""The process that boots a node of a rehearsal: its command line and environment at one start of the job."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Mapping, Optional, Tuple

from ma_boot.errors import CannotCreate
from ma_boot.launch import WorkerSpec
from ma_boot.modelarts import PLATFORM_GID, PLATFORM_UID
from ma_boot.node import BootRequest, as_options
from ma_boot.rehearsal.platform import (
    StartedJob,
    absolute_paths,
    channel_arguments,
    channel_variables,
    mapping_of,
    node_environment,
    rerooted,
)
from ma_boot.rehearsal.sandbox import sandboxed
from ma_boot.rehearsal.setup import Setup
from path_mapping.mapping import PathMapping


def node_spec(setup: Setup, start: StartedJob, node: int, environ: Mapping[str, str], cwd: str) -> WorkerSpec:
    """The process that boots a node at one start of the job.

    `environ` and `cwd` are those of the rehearsal.

    Raises:
        CannotCreate: the node's own path mapping cannot be written.
    """
    code, rehearsal, job = setup.code, setup.rehearsal, setup.job
    variables = {
        **node_environment(start, node, code.name if code else "code", environ),
        **channel_variables(rehearsal.channels, start, node),
    }
    argv = (sys.executable, "-m", "ma_boot", "run", *as_options(_request_on_node(setup, start, node, cwd)))
    home = start.home(node)
    disks = rehearsal.small_disks(node)
    if disks or setup.exact_paths:
        user = (PLATFORM_UID, PLATFORM_GID) if setup.exact_paths else None
        argv, home = sandboxed(argv, home, start.sandbox_root(node), disks, user), job.home(node)
    return WorkerSpec(
        label=f"node {node}",
        argv=argv,
        cwd=home,
        environ=variables if setup.obs is None else setup.obs.reached_from(variables),
        log_file=job.node_log(node),
    )


def node_mapping(setup: Setup, node: int) -> Optional[PathMapping]:
    """The path mapping as this node reads it; None without one, or if it is invalid."""
    job = setup.job
    first_rank = node * job.devices_per_node
    return mapping_of(
        setup.request.transfers.path_mapping,
        {"job": job.log_name, "node": str(node), "rank": str(first_rank)},
    )


def rerooted_paths(setup: Setup) -> Tuple[str, ...]:
    """The absolute local paths of the mapping, unless the nodes see the platform's own paths."""
    mapping = None if setup.exact_paths else node_mapping(setup, 0)
    return absolute_paths(mapping) if mapping else ()


def _request_on_node(setup: Setup, start: StartedJob, node: int, cwd: str) -> BootRequest:
    """The request of a node: its script in its own copy of the code, other paths made absolute, and the
    arguments that the platform appends."""
    request, code, rehearsal = setup.request, setup.code, setup.rehearsal
    first, *rest = request.command
    if code is not None and first.endswith((".py", ".sh")):
        first = str(Path(start.job_dir(node), code.name, first))
    environment, transfers = request.environment, request.transfers
    root = transfers.obs_root
    return replace(
        request,
        command=(first, *rest, *channel_arguments(rehearsal.channels, start, node), *rehearsal.appended),
        environment=replace(environment, source=tuple(str(Path(cwd, file)) for file in environment.source)),
        transfers=replace(
            transfers,
            path_mapping=_rerooted_mapping(setup, node) or transfers.path_mapping,
            obs_root=None if setup.obs or root is None else str(Path(cwd, root)),
        ),
    )


def _rerooted_mapping(setup: Setup, node: int) -> Optional[str]:
    """The file of a node's own mapping, if the user's one has absolute paths to be re-rooted."""
    mapping = None if setup.exact_paths else node_mapping(setup, node)
    if mapping is None or not absolute_paths(mapping):
        return None
    file = Path(setup.job.root, "log", f"path_mapping-{node}.json")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rerooted(mapping, setup.job.sandbox_root(node)), encoding="utf-8")
    except OSError as error:
        raise CannotCreate(f"cannot write {file}: {error.strerror}") from error
    return str(file)
