"""What each phase of the story does: effects at the edge, around the pure modules."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Callable, List, Mapping, Optional, Tuple

from ma_boot.attempts import Restarts
from ma_boot.command import command_argv, find_file
from ma_boot.cores import bound_cores, read_machine
from ma_boot.environment import TrainingEnvironment, select_environment
from ma_boot.errors import CannotCreate, ConfigError, NotFound, RankTableInvalid, listed
from ma_boot.job import TABLE_NAME, JobEnvironment
from ma_boot.launch import LaunchPlan, Placement, placed_by_count, plan_launch, with_cores, with_tee
from ma_boot.output import keep_earlier
from ma_boot.rank_file import wait_until_completed, write_atomically
from ma_boot.rank_table import NotYet, Pod, RankTable, Unreadable, convert, errors, own_pod, parse, validate
from ma_boot.supervise import Limits
from ma_boot.sync import load_mapping, places_of
from ma_boot.world import World
from path_mapping import errors as mapping_errors
from path_mapping.config import PathMapping
from path_mapping.store import STALL_SECONDS, Store
from path_mapping.stores import open_store

DNS_SECONDS = 300.0
MOST_WARNINGS = 5
SCHEDULER_PORT = 8118  # msrun's default


@dataclass(frozen=True)
class BootRequest:
    """What the user asked of this node; times in seconds."""

    command: Tuple[str, ...]
    python: Optional[str] = None
    conda_env: Optional[str] = None
    source: Tuple[str, ...] = ()
    path_mapping: Optional[str] = None
    obs_root: Optional[str] = None
    product: Optional[str] = None
    rank_order: str = "pod"
    host_nic_ip: Optional[str] = None
    rendezvous: str = "rank-table"
    rendezvous_port: Optional[int] = None
    rank_table_timeout: float = 1800.0
    bind_cores: str = "none"
    tee: str = "all"
    stop_timeout: float = 15.0
    upload_timeout: float = 600.0
    stall_timeout: float = STALL_SECONDS
    max_restarts: int = 0
    start_seconds: float = 10.0
    hang_timeout: Optional[float] = None
    hang_action: str = "report"

    @property
    def limits(self) -> Limits:
        """The supervisor's patience."""
        return Limits(self.stop_timeout, hang_timeout=self.hang_timeout, hang_action=self.hang_action)

    @property
    def restarts(self) -> Restarts:
        """How often the processes may be started again."""
        return Restarts(self.max_restarts, self.start_seconds)


def as_options(request: BootRequest) -> Tuple[str, ...]:
    """The request as a command line of `ma_boot run`: what another process needs to boot by it."""
    options: List[str] = []
    for field in fields(request):
        value = getattr(request, field.name)
        name = "--" + field.name.replace("_", "-")
        if field.name == "source":
            options += [part for file in value for part in (name, file)]
        elif field.name != "command" and value is not None:
            options += [name, str(value)]
    return (*options, "--", *request.command)


def read_mapping_and_store(
    request: BootRequest, world: World, job: JobEnvironment
) -> Tuple[PathMapping, Optional[Store]]:
    """The mapping, and the store when the mapping names anything; what is missing is an error now."""
    mapping = read_mapping(request, world, job)
    if not mapping.inputs and not mapping.outputs:
        return mapping, None
    root = Path(world.cwd, request.obs_root) if request.obs_root else None
    try:
        return mapping, open_store(world.environ, root, stall_timeout=request.stall_timeout)
    except mapping_errors.PathMappingError as error:
        raise ConfigError(str(error)) from error


def read_mapping(request: BootRequest, world: World, job: JobEnvironment) -> PathMapping:
    """The mapping; its file is found as the command is."""
    if request.path_mapping is None:
        return load_mapping(None, {})
    try:
        return load_mapping(find_file(request.path_mapping, world.cwd, job.job_dir), places_of(job))
    except NotFound as error:
        raise ConfigError(f"--path-mapping {error}") from error


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
    except NotFound:
        brought = [os.path.normpath(os.path.join(world.cwd, route.local)) for route in mapping.inputs]
        script = os.path.normpath(os.path.join(world.cwd, request.command[0]))
        if not any(script == local or script.startswith(local + os.sep) for local in brought):
            raise


def _argv(
    request: BootRequest, world: World, job: JobEnvironment, training: TrainingEnvironment
) -> Tuple[str, ...]:
    path = training.environ.get("PATH", "")
    return command_argv(request.command, training.python, path, world.cwd, job.job_dir)


def find_ranks(
    request: BootRequest, world: World, job: JobEnvironment, check: Callable[[], None]
) -> Tuple[Placement, Optional[RankTable]]:
    """The ranks of this node: by the rank table once it is completed, by counting where the job has none."""
    if job.rank_table is None:
        if request.rendezvous == "rank-table":
            raise ConfigError(
                "RANK_TABLE_FILE is not set, so no rank table will come: in a job on NPUs set it to "
                "/user/config in the job's environment variables; without NPUs choose another --rendezvous"
            )
        return placed_by_count(job), None

    def check_both() -> None:
        world.inbox.check()
        check()

    document = wait_until_completed(
        job.rank_table,
        request.rank_table_timeout,
        sleep=world.inbox.wait,
        check=check_both,
        say=world.journal.say,
        taken=lambda completed: _stale(completed, job),
    )
    table = _valid_table(request, world, document)
    return _placement(table, job), table


def _stale(document: Mapping[str, Any], job: JobEnvironment) -> Optional[NotYet]:
    """Why a completed table is none of this job's: one that an earlier attempt left, soon to be replaced."""
    table = _parsed(document)
    if table.template == "two" and job.node_count_given and len(table.pods) != job.node_count:
        return NotYet(f"completed, but with {len(table.pods)} pods where MA_NUM_HOSTS is {job.node_count}")
    try:
        _own_pod(table, job)
    except ConfigError as error:
        return NotYet(f"completed, but {error}")
    return None


def _parsed(document: Mapping[str, Any]) -> RankTable:
    try:
        return parse(document)
    except Unreadable as error:
        problems = [str(finding) for finding in error.findings]
        raise RankTableInvalid(listed("the rank table is completed, but wrong:", problems)) from error


def _valid_table(request: BootRequest, world: World, document: Mapping[str, Any]) -> RankTable:
    """The table with ranks; what is fatal about it is raised at once, what is not is said."""
    table = _parsed(document)
    findings = validate(table, request.product)
    if errors(findings):
        problems = [str(finding) for finding in errors(findings)]
        raise RankTableInvalid(listed("the rank table is completed, but wrong:", problems))
    ranked = convert(table, request.rank_order, request.host_nic_ip or "")
    warnings = [*findings, *ranked.findings[len(table.findings) :]]
    for finding in warnings[:MOST_WARNINGS]:
        world.journal.say(f"rank table: {finding}")
    if len(warnings) > MOST_WARNINGS:
        world.journal.say(f"rank table: {len(warnings) - MOST_WARNINGS} more warnings of the kind")
    return ranked


def _own_pod(table: RankTable, job: JobEnvironment) -> Optional[Pod]:
    """This container in the table; None for a table that is passed through."""
    if not table.pods:
        return None
    return own_pod(table, job.instance_name, job.host_ip, job.node_rank)


def _placement(table: RankTable, job: JobEnvironment) -> Placement:
    """The ranks of this pod's own devices: a server may hold two pods of a job."""
    file = os.path.join(job.home, "rank_table", TABLE_NAME)
    pod = _own_pod(table, job)
    if pod is None:
        return Placement(table.world_size, placed_by_count(job).ranks, file)
    devices = [device for device in pod.devices if device.rank is not None]
    ranks = tuple(device.rank for device in devices if device.rank is not None)
    return Placement(table.world_size, ranks, file, tuple(int(device.device_id) for device in devices))


def write_table(placement: Placement, table: Optional[RankTable]) -> None:
    """Writes template one anew at each start: a table of an earlier start may name replaced nodes."""
    if placement.table_file is not None and table is not None:
        write_atomically(Path(placement.table_file), table.dumps())


def by_route(
    world: World,
    job: JobEnvironment,
    training: TrainingEnvironment,
    placement: Placement,
    table: Optional[RankTable],
) -> Placement:
    """The placement that the platform's route planner makes of ours, where the job asks for it."""
    if not job.route_plan or placement.table_file is None or table is None or not table.pods:
        return placement
    from ma_boot.route_plan import planned_route  # few jobs ask for it

    server = own_pod(table, job.instance_name, job.host_ip, job.node_rank).server_id
    found = planned_route(
        training.python, Path(placement.table_file), server, training.environ, world.inbox, world.journal.say
    )
    return placement if found is None else replace(placement, ranks=found[1], table_file=str(found[0]))


def said_ranks(placement: Placement) -> str:
    """`ranks 4-7 of 8`."""
    ranks = placement.ranks
    if not ranks:
        return f"no rank of {placement.world_size} is here"
    span = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"
    return f"rank{'s' if len(ranks) > 1 else ''} {span} of {placement.world_size}"


def plan_node(
    request: BootRequest,
    world: World,
    job: JobEnvironment,
    training: TrainingEnvironment,
    placement: Placement,
) -> LaunchPlan:
    """The launch plan of this node (phase 4)."""
    scheduler = ("", 0)
    if request.rendezvous == "mindspore":
        scheduler = (scheduler_address(job, world), request.rendezvous_port or SCHEDULER_PORT)
    argv = _argv(request, world, job, training)
    plan = plan_launch(job, placement, argv, world.cwd, training.environ, request.rendezvous, scheduler)
    machine = read_machine(frozenset(os.sched_getaffinity(0)))
    device_ids = placement.device_ids or tuple(range(len(placement.ranks)))
    return with_tee(with_cores(plan, bound_cores(request.bind_cores, machine, device_ids)), request.tee)


def scheduler_address(job: JobEnvironment, world: World) -> str:
    """Node 0's address, for MindSpore's scheduler."""
    if job.node_count == 1:
        return "127.0.0.1"
    if not job.worker_hosts:
        raise ConfigError(
            f"VC_WORKER_HOSTS is not set, but the job has {job.node_count} nodes: expected their names"
        )
    from ma_boot.resolve import address_of  # tenacity is slow to import, and few jobs need a name resolved

    return address_of(job.worker_hosts[0], DNS_SECONDS, world.journal.say, world.inbox)


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
