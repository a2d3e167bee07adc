"""Which ranks run on this node: by the rank table once it is completed, by hand, or by counting."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

from ma_boot.environment import TrainingEnvironment
from ma_boot.errors import ConfigError, RankTableInvalid, listed
from ma_boot.launch import Placement, placed_by_count
from ma_boot.modelarts import TABLE_NAME, JobEnvironment, wait_until_completed, write_atomically
from ma_boot.node.request import BootRequest
from ma_boot.node.world import World
from ma_boot.rank_table import (
    NotYet,
    Pod,
    RankTable,
    TableFinding,
    Unreadable,
    convert,
    errors,
    own_pod,
    parse,
    validate,
)

MOST_WARNINGS = 5


def find_ranks(
    request: BootRequest, world: World, job: JobEnvironment, check: Callable[[], None]
) -> Tuple[Placement, Optional[RankTable]]:
    """The ranks of this node, and the rank table where the job has one."""
    file = _table_file(request, world, job)
    if file is None:
        if request.rendezvous == "rank-table":
            raise ConfigError(
                "RANK_TABLE_FILE is not set, so no rank table will come: in a job on NPUs set it to "
                "/user/config in the job's environment variables; without NPUs choose another --rendezvous"
            )
        return _by_count(request, job), None

    def check_both() -> None:
        world.inbox.check()
        check()

    document = wait_until_completed(
        file,
        request.rank_table_timeout,
        sleep=world.inbox.wait,
        check=check_both,
        say=world.journal.say,
        accept=lambda completed: None if request.by_hand else _stale(completed, job),
    )
    table = _valid_table(request, world, document)
    in_place = request.rank_table_file is not None and "group_list" not in document
    file = file if in_place else own_table_file(job)
    if request.by_hand:
        return _by_hand(request, file, table), table
    return _by_table(request, file, table, job), table


def own_table_file(job: JobEnvironment) -> str:
    """Where the converted table goes."""
    return os.path.join(job.home, "rank_table", TABLE_NAME)


def _table_file(request: BootRequest, world: World, job: JobEnvironment) -> Optional[str]:
    """The file to wait for; one that the user names exists already."""
    if request.rank_table_file is None:
        return job.rank_table
    file = os.path.normpath(os.path.join(world.cwd, request.rank_table_file))
    if not os.path.isfile(file):
        raise ConfigError(f"--rank-table-file {request.rank_table_file}: no such file (looked for {file})")
    return file


def _by_count(request: BootRequest, job: JobEnvironment) -> Placement:
    if request.devices and job.device_count and request.devices[-1] >= job.device_count:
        raise _no_such_device(request.devices[-1], job.device_count)
    return placed_by_count(job, request.devices)


def _no_such_device(device: int, count: int) -> ConfigError:
    return ConfigError(
        f"--devices names device {device}, but this node has {count}: expected 0 to {count - 1}"
    )


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
        raise _wrong(error.findings) from error


def _wrong(findings: Sequence[TableFinding]) -> RankTableInvalid:
    problems = listed("the rank table is completed, but wrong:", [str(finding) for finding in findings])
    return RankTableInvalid(
        f"{problems}\n  -> one that the platform wrote: start the job again, and report it if it stays so; "
        "one of your own: `ma_boot rank-table validate FILE`, without a job"
    )


def _valid_table(request: BootRequest, world: World, document: Mapping[str, Any]) -> RankTable:
    """The table with ranks; what is fatal about it is raised at once, what is not is said."""
    table = _parsed(document)
    findings = validate(table, request.product)
    if errors(findings):
        raise _wrong(errors(findings))
    chosen = _with_devices(table, request) if request.devices else table
    ranked = convert(chosen, request.rank_order, request.host_nic_ip or "")
    warnings = [*findings, *ranked.findings[len(table.findings) :]]
    for finding in warnings[:MOST_WARNINGS]:
        world.journal.say(f"rank table: {finding}")
    if len(warnings) > MOST_WARNINGS:
        world.journal.say(f"rank table: {len(warnings) - MOST_WARNINGS} more warnings of the kind")
    return ranked


def _with_devices(table: RankTable, request: BootRequest) -> RankTable:
    """The table with only the chosen devices of each pod: HCCL waits for every device that it names."""
    if table.template != "two":
        raise ConfigError(
            "--devices: the rank table has ranks already; choose the devices where it is made "
            "(ma_boot rank-table generate)"
        )
    fewest = min((len(pod.devices) for pod in table.pods), default=0)
    if request.devices[-1] >= fewest:
        raise _no_such_device(request.devices[-1], fewest)
    pods = (
        replace(pod, devices=tuple(pod.devices[place] for place in request.devices)) for pod in table.pods
    )
    return replace(table, pods=tuple(pods))


def _own_pod(table: RankTable, job: JobEnvironment) -> Optional[Pod]:
    """This container in the table; None for a table that is passed through."""
    if not table.pods:
        return None
    return own_pod(table, job.instance_name, job.host_ip, job.node_rank)


def _by_table(request: BootRequest, file: str, table: RankTable, job: JobEnvironment) -> Placement:
    """The ranks of this pod's own devices: a server may hold two pods of a job.

    Where the table is not the rendezvous, ranks follow the nodes as the job numbers them, so that rank 0 is
    on the node of the master.
    """
    pod = _own_pod(table, job)
    if pod is None:
        return Placement(table.world_size, placed_by_count(job).ranks, file)
    devices = [device for device in pod.devices if device.rank is not None]
    ranks = tuple(device.rank for device in devices if device.rank is not None)
    if request.rendezvous != "rank-table" and len({len(other.devices) for other in table.pods}) == 1:
        first = job.group_rank * len(ranks)
        ranks = tuple(range(first, first + len(ranks)))
    ids = tuple(int(device.device_id) for device in devices)
    return Placement(table.world_size, ranks, file, ids, request.devices)


def _by_hand(request: BootRequest, file: str, table: RankTable) -> Placement:
    """The ranks from `--rank-start` on, as many as the server has that the table puts this rank on."""
    size, start, first = (
        request.rank_size or table.world_size,
        request.rank_start or 0,
        request.device_start or 0,
    )
    if size != table.world_size:
        raise ConfigError(f"--rank-size is {size}, but the rank table {file} has {table.world_size} devices")
    for pod in table.pods:
        here = [device for device in pod.devices if device.rank is not None and device.rank >= start]
        if any(device.rank == start for device in here):
            ids = tuple(int(device.device_id) for device in here)
            ranks = tuple(range(start, start + len(here)))
            return Placement(size, ranks, file, ids, tuple(range(first, first + len(here))), by_hand=True)
    raise ConfigError(f"--rank-start is {start}, but no server in {file} has this rank (it has {size})")


def write_table(placement: Placement, table: Optional[RankTable], job: JobEnvironment) -> None:
    """Writes template one anew at each start: a table of an earlier start may name replaced nodes.

    A file that the user named is read where it is, when it is template one.
    """
    if table is not None and placement.table_file == own_table_file(job):
        write_atomically(Path(placement.table_file), table.dumps())


def by_route(
    request: BootRequest,
    world: World,
    job: JobEnvironment,
    training: TrainingEnvironment,
    placement: Placement,
    table: Optional[RankTable],
) -> Placement:
    """The placement that the platform's route planner makes of ours, where the job asks for it."""
    if request.rendezvous != "rank-table" or request.by_hand:
        return placement
    if not job.route_plan or placement.table_file is None or table is None or not table.pods:
        return placement
    from ma_boot.modelarts import planned_route  # few jobs ask for it

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
