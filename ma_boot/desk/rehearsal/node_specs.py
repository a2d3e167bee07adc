"""The process that boots a node of a rehearsal: its command line and environment at one start of the job."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ma_boot.desk.rehearsal.platform.code_directory import command_in
from ma_boot.desk.rehearsal.platform.own_conda import conda_variables
from ma_boot.desk.rehearsal.platform.simulated_job import (
    SimulatedJob,
    channel_arguments,
    channel_variables,
    node_environment,
)
from ma_boot.desk.rehearsal.sandbox import sandboxed
from ma_boot.desk.rehearsal.setup import Setup
from ma_boot.desk.rehearsal.simulated_cards import tools_of
from ma_boot.errors import CannotCreate
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.request import BootRequest, as_options, as_variables, boot_command
from ma_boot.node.caches.options import EXTENSION, cache_options_of, write_cache_options
from ma_boot.node.checkpoints.options import options_of, write_options
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.platform.modelarts.job import PLATFORM_GID, PLATFORM_UID
from path_mapping.errors import MappingInvalid
from path_mapping.mapping.mapping_file import read_mapping
from path_mapping.mapping.routes import PathMapping, Route

_ROUTE_OPTIONS = ("include", "exclude", "interval", "shard", "delete", "checksum")


def node_spec(setup: Setup, start: SimulatedJob, node: int, context: ProcessContext) -> WorkerSpec:
    """The process that boots a node at one start of the job.

    Raises:
        CannotCreate: the node's own path mapping cannot be written.
    """
    code, rehearsal, job = setup.code, setup.rehearsal, setup.job
    request = _request_on_node(setup, start, node, context.cwd)
    variables = {
        **as_variables(request),
        **node_environment(start, node, code.name if code else "code", context.environ),
        **conda_variables(request.environment.conda_env, context.environ),
        **channel_variables(rehearsal.channels, start, node),
    }
    if rehearsal.has_bad_card(node):
        variables["PATH"] = os.pathsep.join([tools_of(start.home(node)), variables.get("PATH", os.defpath)])
    argv = (sys.executable, "-m", "ma_boot", "run", *as_options(request))
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


def _request_on_node(setup: Setup, start: SimulatedJob, node: int, cwd: str) -> BootRequest:
    """The request of a node: its script in its own copy of the code, other paths made absolute, and the
    arguments that the platform appends."""
    request, code, rehearsal = setup.request, setup.code, setup.rehearsal
    place = os.path.join(start.job_dir(node), code.name if code else "")
    command = command_in(request.command, code, place)
    appended = (*channel_arguments(rehearsal.channels, start, node), *rehearsal.appended)
    environment, transfers = request.environment, request.transfers
    return request._replace(
        command=command._replace(words=(*command.words, *appended)),
        environment=environment._replace(source=tuple(_source(cwd, file) for file in environment.source)),
        transfers=transfers._replace(
            path_mapping=_rerooted_mapping(setup, node) or transfers.path_mapping,
            obs_root=None,  # which is served
        ),
    )


def command_for_form(setup: Setup) -> str:
    """The boot command of the job form for what is rehearsed: its paths are those of the platform, and it has
    nothing that is only needed for several nodes on one machine."""
    request, code = setup.rehearsal.request, setup.code
    place = os.path.join(replace(setup.job, exact_paths=True).job_dir(0), code.name if code else "")
    mapping = request.transfers.path_mapping
    if code is not None and code in Path(setup.request.transfers.path_mapping or "").parents:
        mapping = os.path.join(place, os.path.relpath(str(setup.request.transfers.path_mapping), code))
    return boot_command(
        request._replace(
            command=command_in(setup.request.command, code, place),
            job=request.job._replace(platform=None),
            transfers=request.transfers._replace(path_mapping=mapping, obs_root=None),
        ),
        replaces_shell=True,
    )


def _source(cwd: str, file: str) -> str:
    """A file of this directory by its absolute path; any other is looked for in the node's code."""
    here = Path(cwd, file)
    return str(here) if here.is_file() else file


def node_mapping(setup: Setup, node: int) -> PathMapping | None:
    """The path mapping as this node reads it; None without one.

    None also for an invalid one, which the node itself will report.
    """
    job, path = setup.job, setup.request.transfers.path_mapping
    if path is None or not os.path.exists(path):
        return None
    first_rank = node * job.devices_per_node
    try:
        return read_mapping(
            Path(path), {"job": job.log_name, "node": str(node), "rank": str(first_rank)}, EXTENSION
        )
    except MappingInvalid:
        return None


def rerooting_note(setup: Setup) -> str:
    """Tells the user which paths of the mapping are elsewhere; empty if none are."""
    paths = [] if setup.exact_paths else _absolute_paths(node_mapping(setup, 0))
    heading = (
        "absolute paths of the mapping are below each node's directory; a training that opens them by "
        "their real names does not find them (--sandbox bwrap shows them at their real paths):"
    )
    return "\n".join([heading, *(f"  {path} is NODE{path}" for path in paths)]) if paths else ""


def _absolute_paths(mapping: PathMapping | None) -> list[str]:
    """The absolute local paths of a mapping."""
    routes = (*mapping.inputs, *mapping.outputs, *mapping.caches) if mapping else ()
    return [route.local for route in routes if os.path.isabs(route.local)]


def _rerooted_mapping(setup: Setup, node: int) -> str | None:
    """The file of a node's own mapping, with its absolute local paths below the node's directory.

    None if the mapping has none, or the node sees the platform's own paths.
    """
    mapping = None if setup.exact_paths else node_mapping(setup, node)
    if mapping is None or not _absolute_paths(mapping):
        return None
    file = Path(setup.job.root, "log", f"path_mapping-{node}.json")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rerooted(mapping, setup.job.sandbox_root(node)), encoding="utf-8")
    except OSError as error:
        raise CannotCreate(f"cannot write {file}: {error.strerror}") from error
    return str(file)


def rerooted(mapping: PathMapping, root: str) -> str:
    """The mapping as JSON, with every absolute local path below `root`."""
    sections = {"input": _section(mapping.inputs, root), "output": _section(mapping.outputs, root)}
    if mapping.caches:
        sections["cache"] = {
            _escaped(_below(root, route)): {
                "obs": _escaped(str(route.remote)),
                **write_cache_options(cache_options_of(route)),
            }
            for route in mapping.caches
        }
    return json.dumps(sections, indent=2)


def _section(routes: Sequence[Route], root: str) -> dict[str, Any]:
    section: dict[str, Any] = {}
    for route in routes:
        options = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in route._asdict().items()
            if name in _ROUTE_OPTIONS and value
        }
        checkpoints = options_of(route)
        if checkpoints is not None:
            options.update(write_options(checkpoints))
        section[_escaped(_below(root, route))] = {
            "obs": _escaped(str(route.remote)),
            "required": route.required,
            **options,
        }
    return section


def _below(root: str, route: Route) -> str:
    """The local path of a route, below `root` if it is absolute."""
    return root + route.local if os.path.isabs(route.local) else route.local


def _escaped(text: str) -> str:
    """The text with its braces doubled: single ones are placeholders in a mapping."""
    return text.replace("{", "{{").replace("}", "}}")
