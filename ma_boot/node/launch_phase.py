"""What each phase of the story does: effects at the edge, around the pure modules."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Optional, Tuple

from ma_boot.environment import TrainingEnvironment, command_argv, find_file, select_environment
from ma_boot.errors import CannotCreate, CommandNotFound, ConfigError, listed
from ma_boot.launch import (
    MINDSPORE_PORT,
    TORCH_PORT,
    LaunchPlan,
    Node,
    Placement,
    plan_launch,
    with_cores,
    with_rank_dirs,
    with_tee,
)
from ma_boot.modelarts import JobEnvironment, bound_cores, check_free, read_channels, read_machine
from ma_boot.node.rank_dirs import code_to_copy, make_rank_dirs
from ma_boot.node.request import BootRequest
from ma_boot.node.transfers import load_mapping, places_of, store_of
from ma_boot.node.world import World
from ma_boot.reporting import keep_earlier
from path_mapping.mapping import PathMapping
from path_mapping.stores import Store

DNS_SECONDS = 300.0


def read_mapping_and_store(
    request: BootRequest, world: World, job: JobEnvironment
) -> Tuple[PathMapping, Optional[Store]]:
    """The mapping, and the store when the mapping names anything; what is missing is an error now."""
    mapping = read_mapping(request, world, job)
    if not mapping.inputs and not mapping.outputs:
        return mapping, None
    return mapping, store_of(world.environ, world.cwd, request.obs_root, request.stall_timeout)


def read_mapping(request: BootRequest, world: World, job: JobEnvironment) -> PathMapping:
    """The mapping; its file is found as the command is."""
    if request.path_mapping is None:
        return load_mapping(None, {})
    try:
        return load_mapping(find_file(request.path_mapping, world.cwd, job.job_dir), places_of(job))
    except CommandNotFound as error:
        raise ConfigError(f"--path-mapping {error}") from error


def check_container(request: BootRequest, world: World, job: JobEnvironment) -> None:
    """`--preflight`: warnings are said, errors are raised together as `ConfigError`."""
    if not request.preflight:
        return
    from ma_boot.doctor import Patient, cheap_findings, failed  # only for jobs that ask for it

    findings = cheap_findings(Patient(world.environ, world.hostname, world.cwd), job)
    for finding in findings:
        if finding.severity == "warning":
            world.journal.say(f"preflight: {finding.check}: {finding.evidence}; {finding.remedy}")
    problems = [f"{one.check}: {one.evidence}; {one.remedy}" for one in failed(findings)]
    if problems:
        raise ConfigError(listed("the container is not fit for the job (ma_boot doctor):", problems))


def say_channels(world: World) -> None:
    """Says what is odd about the job's inputs and outputs; the platform has filled the inputs before."""
    channels, problems = read_channels(world.environ)
    for problem in problems:
        world.journal.say(problem)
    for channel in channels:
        if channel.kind == "inputs" and not os.path.exists(channel.local_dir):
            world.journal.say(
                f"the job's input {channel.name} is not there: {channel.local_dir} ({channel.url})"
            )


def environment_of(request: BootRequest, world: World, job: JobEnvironment) -> TrainingEnvironment:
    """The selected environment (phase 2)."""
    training = select_environment(
        request.python,
        request.conda_env,
        request.source,
        world.environ,
        job.home,
        world.inbox,
        world.journal.say,
    )
    if request.obs_root is None:
        return training
    root = os.path.join(world.cwd, request.obs_root)  # for the training's own `path_mapping.file`
    return replace(training, environ={**training.environ, "PATH_MAPPING_OBS_ROOT": root})


def check_command(
    request: BootRequest,
    world: World,
    job: JobEnvironment,
    training: TrainingEnvironment,
    mapping: PathMapping,
) -> None:
    """Finds a missing command before hours of download, unless an input will bring it."""
    try:
        _argv(request, world, job, training)
    except CommandNotFound:
        brought = [os.path.normpath(os.path.join(world.cwd, route.local)) for route in mapping.inputs]
        script = os.path.normpath(os.path.join(world.cwd, request.command[0]))
        if not any(script == local or script.startswith(local + os.sep) for local in brought):
            raise


def _argv(
    request: BootRequest, world: World, job: JobEnvironment, training: TrainingEnvironment
) -> Tuple[str, ...]:
    path = training.environ.get("PATH", "")
    return command_argv(request.command, training.python, path, world.cwd, job.job_dir)


def plan_node(
    request: BootRequest,
    world: World,
    job: JobEnvironment,
    training: TrainingEnvironment,
    placement: Placement,
) -> LaunchPlan:
    """The launch plan of this node (phase 4)."""
    argv = _argv(request, world, job, training)
    meeting = _master(request, world, job, training)
    node = Node(job, placement, argv, world.cwd, training.environ, meeting, os.geteuid() == 0)
    plan = plan_launch(node, request.way)
    if request.workdir == "per-rank":
        plan = with_rank_dirs(plan, placement.by_hand, code_to_copy(request.copy_code, argv, world.cwd))
    machine = read_machine(frozenset(os.sched_getaffinity(0)))
    device_ids = placement.device_ids or tuple(map(placement.device, range(len(placement.ranks))))
    return with_tee(with_cores(plan, bound_cores(request.bind_cores, machine, device_ids)), request.tee)


def _master(
    request: BootRequest, world: World, job: JobEnvironment, training: TrainingEnvironment
) -> Optional[Tuple[str, int]]:
    """The address and port where the processes of all nodes meet; None where they need none."""
    if request.rendezvous in ("rank-table", "mpi", "none") and not request.per_node:
        return None
    default = MINDSPORE_PORT if request.rendezvous == "mindspore" else TORCH_PORT
    given = training.environ.get("MASTER_PORT", "") if request.rendezvous == "torch" else ""
    port = request.rendezvous_port or (int(given) if given.isdecimal() else default)
    return master_address(job, world), port


def master_address(job: JobEnvironment, world: World) -> str:
    """The first node's address."""
    if job.node_count == 1:
        return "127.0.0.1"
    if job.master_index >= len(job.worker_hosts):
        found = f"{len(job.worker_hosts)} names" if job.worker_hosts else "not set"
        raise ConfigError(
            f"VC_WORKER_HOSTS is {found}, but the job has {job.node_count} nodes: expected the name of each"
        )
    from ma_boot.modelarts import address_of

    return address_of(job.worker_hosts[job.master_index], DNS_SECONDS, world.journal.say, world.inbox)


def prepare(plan: LaunchPlan, mapping: PathMapping) -> None:
    """Makes what the processes need before they start: directories, and ports that are free."""
    make_process_log_dirs(plan)
    make_rank_dirs(plan, mapping)
    check_free(plan.ports)


def make_process_log_dirs(plan: LaunchPlan) -> None:
    """CANN does not make the directory that `ASCEND_PROCESS_LOG_PATH` names."""
    paths = (worker.environ.get("ASCEND_PROCESS_LOG_PATH") for worker in plan.workers)
    for path in filter(None, paths):
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise CannotCreate(f"cannot make ASCEND_PROCESS_LOG_PATH {path}: {error.strerror}") from error


def forget_earlier_failure(job: JobEnvironment) -> None:
    """Moves an earlier start's failure aside: from now on a file of this name is this start's."""
    try:
        keep_earlier(Path(job.failure_file))
    except OSError as error:
        raise CannotCreate(f"cannot move {job.failure_file} aside: {error.strerror}") from error
