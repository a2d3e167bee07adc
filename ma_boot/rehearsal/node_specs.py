"""A rehearsal's nodes: their directories, with the code and the inputs in them, and what starts each."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from ma_boot.errors import CannotCreate
from ma_boot.launch import WorkerSpec
from ma_boot.node import BootRequest, World, as_options
from ma_boot.processes import SignalInbox, Task
from ma_boot.rehearsal.faults import Fault
from ma_boot.rehearsal.platform.code_directory import copy_code
from ma_boot.rehearsal.platform.job_form import Channel, appended, bring_inputs, variables
from ma_boot.rehearsal.platform.rerooted_mapping import absolute_paths, mapping_of, rerooted
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob, node_environment
from ma_boot.rehearsal.platform.starts import SeenJob
from ma_boot.rehearsal.sandbox.enter import in_sandbox
from ma_boot.rehearsal.served_obs import ServedObs
from path_mapping.mapping import PathMapping
from path_mapping.stores import Store


@dataclass(frozen=True)
class Rehearsal:
    """What to rehearse; paths as the user wrote them, the delay in seconds.

    `appended` are arguments as the platform appends them, `channels` the job form's inputs and outputs;
    `obs_server` says that `--obs-root` is served as OBS; `sandbox` is None or `bwrap`.
    """

    request: BootRequest
    nodes: int
    devices_per_node: int
    rank_table_delay: float
    code_dir: Optional[str]
    rehearsal_dir: str
    faults: Tuple[Fault, ...] = ()
    appended: Tuple[str, ...] = ()
    channels: Tuple[Channel, ...] = ()
    obs_server: bool = False
    sandbox: Optional[str] = None

    @property
    def starts_ranks(self) -> bool:
        """`ma_boot` starts every rank itself, so that a fault can be one's own."""
        return self.request.launch.starts_ranks


@dataclass(frozen=True)
class Setting:
    """A rehearsal that is about to run: `code` and its `files` are in every node, `store` is where the
    platform's own transfers go, `obs` the served one."""

    rehearsal: Rehearsal
    request: BootRequest
    job: SimulatedJob
    code: Optional[Path]
    files: Tuple[Path, ...]
    store: Optional[Store]
    obs: Optional[ServedObs]

    @property
    def exact(self) -> bool:
        """The nodes see the platform's own paths."""
        return self.rehearsal.sandbox is not None


def node_log(job: SimulatedJob, node: int) -> str:
    """Where everything is kept that a node prints."""
    return str(Path(job.root, "log", f"{job.log_name}-worker-{node}.log"))


def make_nodes(
    job: SimulatedJob, nodes: Sequence[int], code: Optional[Path], files: Sequence[Path], inbox: SignalInbox
) -> None:
    """Makes directories of nodes with the code in them; raises `CannotCreate`, and `Stopped` at a signal."""
    for node in nodes:
        inbox.check()
        try:
            for directory in job.directories(node).values():
                Path(directory).mkdir(parents=True)
        except OSError as error:
            raise CannotCreate(f"cannot make the sandbox {job.root}: {error.strerror}") from error
        if code is not None:
            copy_code(code, files, Path(job.job_dir(node), code.name))


def fetch_inputs(setting: Setting, nodes: Sequence[int], inbox: SignalInbox) -> None:
    """The job form's inputs, before the boot command as on the platform.

    Raises `BootError`, and `Stopped` at a signal.
    """
    channels, store = setting.rehearsal.channels, setting.store
    if store is None:
        return
    task = Task(
        "inputs of the job form",
        lambda cancel: bring_inputs(channels, setting.job, nodes, store, cancel),
        inbox,
    )
    try:
        task.wait(inbox.check)
    finally:
        task.cancel()
    task.check()


def node_mapping(setting: Setting, node: int) -> Optional[PathMapping]:
    """The path mapping as this node reads it; None without one, or with a wrong one."""
    job = setting.job
    first_rank = node * job.devices_per_node
    return mapping_of(
        setting.request.transfers.path_mapping,
        {"job": job.log_name, "node": str(node), "rank": str(first_rank)},
    )


def elsewhere(setting: Setting) -> Tuple[str, ...]:
    """The mapping's absolute local paths, which are re-rooted where the real ones cannot be shown."""
    mapping = None if setting.exact else node_mapping(setting, 0)
    return absolute_paths(mapping) if mapping else ()


def node_spec(setting: Setting, seen: SeenJob, node: int, world: World) -> WorkerSpec:
    """What starts `ma_boot` on a node, at the start that `seen` belongs to."""
    code, job, rehearsal = setting.code, setting.job, setting.rehearsal
    request = _on_node(setting, seen, node, world.cwd)
    count = seen.counts[node]
    environ = {
        **node_environment(seen, node, code.name if code else "code", world.environ),
        "MA_SCHEDULE_CNT": str(count.scheduled),
        "MA_PROC_START_CNT": str(count.started),
        **variables(rehearsal.channels, seen, node),
    }
    if setting.obs is not None:
        environ = setting.obs.reached_from(environ)
    spec = WorkerSpec(
        label=f"node {node}",
        argv=(sys.executable, "-m", "ma_boot", "run", *as_options(request)),
        cwd=seen.home(node),
        environ=environ,
        log_file=node_log(job, node),
    )
    rooms = _rooms(rehearsal.faults, node)
    return in_sandbox(spec, job, node, setting.exact, rooms) if setting.exact or rooms else spec


def _rooms(faults: Sequence[Fault], node: int) -> Dict[str, int]:
    """The small disks of a node."""
    return {
        fault.path: fault.size
        for fault in faults
        if fault.kind == "disk-full" and fault.node == node and fault.path and fault.size
    }


def _on_node(setting: Setting, seen: SeenJob, node: int, cwd: str) -> BootRequest:
    """The request as the node gets it: the script in the node's own code, other paths made absolute, and at
    the end of the command what the platform appends."""
    request, code, rehearsal = setting.request, setting.code, setting.rehearsal
    first, *rest = request.command
    if code is not None and first.endswith((".py", ".sh")):
        first = str(Path(seen.job_dir(node), code.name, first))

    def absolute(path: Optional[str]) -> Optional[str]:
        return None if path is None else str(Path(cwd, path))

    more: List[str] = [*appended(rehearsal.channels, seen, node), *rehearsal.appended]
    sources, transfers = request.environment.source, request.transfers
    return dataclasses.replace(
        request,
        command=(first, *rest, *more),
        environment=dataclasses.replace(
            request.environment, source=tuple(str(Path(cwd, file)) for file in sources)
        ),
        transfers=dataclasses.replace(
            transfers,
            path_mapping=_rerooted_mapping(setting, node) or absolute(transfers.path_mapping),
            obs_root=None if setting.obs else absolute(transfers.obs_root),
        ),
    )


def _rerooted_mapping(setting: Setting, node: int) -> Optional[str]:
    """A mapping of the node's own, where the user's one has absolute paths."""
    mapping = None if setting.exact else node_mapping(setting, node)
    if mapping is None or not absolute_paths(mapping):
        return None
    file = Path(setting.job.root, "log", f"path_mapping-{node}.json")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rerooted(mapping, setting.job.node_root(node)), encoding="utf-8")
    except OSError as error:
        raise CannotCreate(f"cannot write {file}: {error.strerror}") from error
    return str(file)
