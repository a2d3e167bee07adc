"""Launch phase: the node's launch plan, and the directories that its processes need."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Callable

from ma_boot.errors import CannotCreate, ConfigError
from ma_boot.node.boot.request import BootRequest
from ma_boot.node.environment.command import find_code
from ma_boot.node.environment.command_words import TrainingCommand
from ma_boot.node.launch.launch_plan import LaunchPlan, Node, WorkerSpec
from ma_boot.node.launch.options import LaunchOptions
from ma_boot.node.launch.worker_specs import (
    MINDSPORE_PORT,
    TORCH_PORT,
    plan_launch,
    with_cores,
    with_rank_dirs,
    with_tee,
)
from ma_boot.platform.modelarts.cpu_affinity import assign_cores, read_machine
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.redact import masked
from ma_boot.wording import Message, counted

if TYPE_CHECKING:
    from path_mapping.mapping.routes import Route

ENVIRONMENT_FILE = "env.log"


# Variables by which CANN and CUDA show a process some of the cards, by their numbers in the container.
VISIBLE_DEVICES = ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def find_hidden_devices(environ: Mapping[str, str], ranks: int) -> list[Message]:
    """Returns warnings about variables that leave a node with so many ranks fewer devices than it needs.

    An empty value, and one that begins with -1, hide all devices from a job without any.
    """
    warnings = []
    for name in VISIBLE_DEVICES:
        value = environ.get(name, "").strip()
        devices = [device for device in value.split(",") if device.strip()]
        if value and not value.startswith("-") and len(devices) < ranks:
            text = (
                "{}={} shows {} of the {} devices that the ranks of this node need: unset it, or use fewer "
                "devices (--devices)"
            )
            warnings.append(Message.of(text, name, value, len(devices), ranks))
    return warnings


def meeting_point(
    options: LaunchOptions, job: JobEnvironment, master_port: str, look_up: Callable[[str], str]
) -> tuple[str, int] | None:
    """Returns the address and port of the rendezvous of all processes; None if they need none.

    `master_port` is the environment's MASTER_PORT; `look_up` resolves a name. Raises `ConfigError` and the
    errors of `look_up`.
    """
    if options.rendezvous in ("rank-table", "mpi", "none") and not options.per_node:
        return None
    default = MINDSPORE_PORT if options.rendezvous == "mindspore" else TORCH_PORT
    given = master_port if options.rendezvous in ("torch", "launcher") else ""
    port = options.rendezvous_port or (int(given) if given.isdecimal() else job.place.port or default)
    if job.node_count == 1:
        return "127.0.0.1", port

    if job.place.master is not None:
        return look_up(job.place.master), port
    if job.master_index >= len(job.place.hosts):
        names = f"{len(job.place.hosts)} names" if job.place.hosts else "not set"
        raise ConfigError(
            f"VC_WORKER_HOSTS is {names}, but the job has {job.node_count} nodes: expected the name of each"
        )
    return look_up(job.place.hosts[job.master_index]), port


def working_directory(options: LaunchOptions, command: TrainingCommand, cwd: str, job_dir: str) -> str:
    """Returns the working directory of the processes, in which relative local paths of the mapping start.

    `cwd` is that of ma_boot; the directories of `--workdir per-rank` are in it. With `--workdir code`, raises
    `CommandNotFound` for a missing script, and `ConfigError` for a command that names no file.
    """
    if options.workdir != "code":
        return cwd
    code = find_code(command, cwd, job_dir)
    if code is None:
        raise ConfigError(
            "--workdir code: expected a script or module of the job's code in COMMAND, found "
            f"{shlex.join(command.words)}, which names none"
        )
    return code


def plan_node(node: Node, options: LaunchOptions) -> LaunchPlan:
    """Returns the launch plan of this node, by its code and its cores. Raises `ConfigError`."""
    plan, placement = plan_launch(node, options), node.placement
    if options.workdir == "per-rank":
        code = _code_to_copy(options.copy_code, node.command.code or node.cwd)
        plan = with_rank_dirs(plan, placement.by_hand, code)
    if options.bind_cores != "none":
        device_ids = placement.device_ids or tuple(map(placement.device, range(len(placement.ranks))))
        machine = read_machine(frozenset(os.sched_getaffinity(0)))
        plan = with_cores(plan, assign_cores(options.bind_cores, machine, device_ids))
    return with_tee(plan, options.tee)


def launch_text(plan: LaunchPlan, request: BootRequest, nodes: int) -> str:
    """Returns the phase of a job with so many nodes in one line."""
    command, options, ranks_start = request.command, request.launch, request.ranks_start
    # A launcher that is told the nodes, DeepSpeed's, finds the cards of its own node.
    is_counted = not command.counts or (command.counts[0] == "--num-nodes" and nodes == 1)
    if options.per_node and ranks_start:
        started = f"{ranks_start} starts the ranks of this node: started once (--per-device: for each device)"
        if plan.world_size == 1 or is_counted:
            return started
        return (
            f"{started}; WARNING: the job has {plan.world_size} ranks, but the command does not say how many "
            f"to start ({command.counts[0]}): docs/starting.md has the words for each launcher"
        )
    named = options.tee.split(",") if options.tee[:1].isdigit() else []
    unknown = [rank for rank in named if int(rank) >= plan.world_size]
    note = f"; --tee {','.join(unknown)}: the job has no such rank" if unknown else ""
    return f"{counted(len(plan.workers), 'process', 'processes')}, rendezvous {options.rendezvous}{note}"


def _code_to_copy(globs: Sequence[str], start: str) -> tuple[tuple[str, str], ...]:
    """Returns the files that match `copy_code`, each with its path inside a rank's directory.

    The globs are relative to `start`. A match below that directory keeps its relative path, one outside
    (`../src`) only its name. Raises `ConfigError` for a glob that matches nothing.
    """
    copies: list[tuple[str, str]] = []
    for pattern in globs:
        matches = sorted(glob.glob(os.path.join(start, pattern)))
        if not matches:
            raise ConfigError(f"MABOOT_COPY_CODE {pattern}: nothing in {start} matches")
        for match in map(os.path.normpath, matches):
            inside = match.startswith(os.path.join(start, ""))
            copies.append((match, os.path.relpath(match, start) if inside else os.path.basename(match)))
    return tuple(copies)


def make_directories(plan: LaunchPlan, inputs: Sequence[Route]) -> None:
    """Creates the directories of the plan; a rank's directory of an earlier start is emptied.

    Raises `CannotCreate`, and `ConfigError` if one of the inputs is in a rank's directory.
    """
    for worker in plan.workers:
        # CANN writes logs only to a directory that exists.
        log_dir = worker.environ.get("ASCEND_PROCESS_LOG_PATH")
        try:
            if log_dir:
                os.makedirs(log_dir, exist_ok=True)
        except OSError as error:
            raise CannotCreate(
                f"cannot create ASCEND_PROCESS_LOG_PATH {log_dir}: {error.strerror}"
            ) from error
        if worker.fresh_cwd:
            _refuse_inputs(worker, inputs)
            try:
                _make_rank_dir(Path(worker.cwd), plan.copied, worker)
            except OSError as error:
                raise CannotCreate(
                    f"cannot create {worker.label}'s {worker.cwd}: {error.strerror}: {error.filename}"
                ) from error


def _refuse_inputs(worker: WorkerSpec, inputs: Sequence[Route]) -> None:
    parent = os.path.dirname(worker.cwd)
    for route in inputs:
        local = os.path.normpath(os.path.join(parent, route.local))
        if (local + os.sep).startswith(worker.cwd + os.sep):
            raise ConfigError(
                f"the input {route.local} is in {worker.cwd}, which --workdir per-rank empties first: "
                "choose another local path for it"
            )


def _make_rank_dir(place: Path, copied: Sequence[tuple[str, str]], worker: WorkerSpec) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif place.is_symlink() or place.exists():
        place.unlink()
    place.mkdir(parents=True)
    for source, name in copied:
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.isdir(source):
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target)
    lines = (f"{name}={value}\n" for name, value in sorted(masked(worker.environ).items()))
    (place / ENVIRONMENT_FILE).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
