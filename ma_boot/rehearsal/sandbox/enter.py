"""Puts what starts a node into its sandbox."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from typing import List, Mapping

from ma_boot.errors import ConfigError
from ma_boot.launch import WorkerSpec
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.rehearsal.sandbox import attach
from ma_boot.rehearsal.sandbox.bubblewrap import Entry, exact_paths, small_disks


def check_is_here(environ: Mapping[str, str], wanted: str) -> None:
    """Raises `ConfigError` without bubblewrap; `wanted` is the option that needs it."""
    if not bubblewrap(environ):
        raise ConfigError(
            f"{wanted} needs bubblewrap, and there is no {attach.PROGRAM}: apt-get install bubblewrap"
        )


def bubblewrap(environ: Mapping[str, str]) -> bool:
    """It is installed."""
    return shutil.which(attach.PROGRAM, path=environ.get("PATH")) is not None


def in_sandbox(
    spec: WorkerSpec, job: SimulatedJob, node: int, exact: bool, rooms: Mapping[str, int]
) -> WorkerSpec:
    """The node, `spec`, in a sandbox; `rooms` are directories, by their platform path, of limited size."""
    root = job.node_root(node)
    if exact:
        options = exact_paths(root, rooms, _listed)
    else:
        options = small_disks({root + path: size for path, size in rooms.items()})
    argv = (
        sys.executable,
        "-m",
        "ma_boot.rehearsal.sandbox.attach",
        *options,
        "--chdir",
        spec.cwd,
        "--",
        *spec.argv,
    )
    return dataclasses.replace(spec, argv=argv, cwd=job.home(node))


def _listed(directory: str) -> List[Entry]:
    with os.scandir(directory) as found:
        return [Entry(one.name, os.readlink(one.path) if one.is_symlink() else None) for one in found]
