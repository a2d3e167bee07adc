"""Rank table phase: the ranks of this node by the rank table, by options, or by counting."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable

from ma_boot.errors import ConfigError, RankTableInvalid, listed
from ma_boot.node.boot.options import RankOptions
from ma_boot.node.boot.process_context import ProcessContext, Say
from ma_boot.node.environment.training_environment import TrainingEnvironment
from ma_boot.node.launch.launch_plan import Placement, place_by_count
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.platform.modelarts.platform_programs import planned_route
from ma_boot.platform.modelarts.rank_table_file import wait_until_completed
from ma_boot.platform.modelarts.surroundings import with_machine
from ma_boot.platform.rank_table import (
    NotYet,
    Pod,
    RankTable,
    TableFinding,
    Unreadable,
    convert,
    errors,
    is_packed,
    own_pod,
    parse,
    validate,
    whole_document,
)
from ma_boot.platform.recognition.modelarts import TABLE_NAME
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.files import write_atomically
from ma_boot.wording import Message, WarningLine, in_lines, lines_of, ranks_text

# Warnings about a rank table that are printed; the others are counted.
MOST_WARNINGS = 5
# Seconds; a file of the user that is older, or still invalid after this wait, is not just being written.
WRITTEN_SECONDS = 5.0
# Seconds between two looks at such a file.
POLL_SECONDS = 0.1


def find_ranks(
    options: RankOptions,
    rendezvous: str,
    job: JobEnvironment,
    context: ProcessContext,
    check: Callable[[], None],
) -> tuple[Placement, RankTable | None, JobEnvironment]:
    """Returns this node's ranks, the converted rank table if there is one, and the job with its nodes.

    Waits for the table, which may have more nodes than the variables; calls `check` meanwhile, which may
    raise. Raises `ConfigError`, `RankTableInvalid` and `RankTableTimeout`.
    """
    sleep, say = context.inbox.wait, context.journal.say
    file = _table_file(options, job, context.cwd)
    if file is None:
        if rendezvous == "rank-table":
            raise ConfigError(
                Message(
                    "RANK_TABLE_FILE is not set, so the platform writes no rank table: for a job on NPUs set "
                    "it to /user/config in the job's environment variables; without NPUs choose another "
                    "--rendezvous"
                )
            )
        last = options.devices[-1] if options.devices else -1
        if job.device_count and last >= job.device_count:
            raise _no_such_device(last, job.device_count)
        return place_by_count(job, options.devices), None, job
    if options.rank_table_file is not None:
        _check_given(options.rank_table_file, file, sleep, check)
    document = wait_until_completed(
        file,
        options.rank_table_timeout,
        sleep=sleep,
        check=check,
        say=say,
        accept=lambda completed: None if options.by_hand else _stale(completed, job, options.product),
    )
    table = _valid_table(options, document, say)
    as_given = options.rank_table_file is not None and table.document == document
    in_place = as_given and not is_packed(Path(file).read_bytes())
    file = file if in_place else own_table_file(job)
    if options.by_hand:
        return _by_hand(options, file, table), table, job
    pod = _own_pod(table, job)
    job = _with_nodes_of(table, pod, job)
    return _by_table(options.devices, rendezvous, file, table=table, pod=pod, job=job), table, job


def own_table_file(job: JobEnvironment) -> str:
    """Returns the path of the converted table."""
    return os.path.join(job.home, "rank_table", TABLE_NAME)


def _table_file(options: RankOptions, job: JobEnvironment, cwd: str) -> str | None:
    """Returns the file to wait for; a file that the user names must exist."""
    if options.rank_table_file is None:
        return job.place.table
    file = os.path.normpath(os.path.join(cwd, options.rank_table_file))
    if not os.path.isfile(file):
        raise ConfigError(f"--rank-table-file {options.rank_table_file}: no such file (looked for {file})")
    return file


def _check_given(given: str, file: str, sleep: Callable[[float], None], check: Callable[[], None]) -> None:
    """Waits until a file of the user is a rank table, while it may still be written.

    Raises `RankTableInvalid`, `ConfigError` and the errors of `check`.
    """
    until = time.monotonic() + WRITTEN_SECONDS
    while True:
        check()
        try:
            document = whole_document(Path(file).read_bytes())
            age = time.time() - os.stat(file).st_mtime
        except OSError as error:
            raise ConfigError(f"--rank-table-file {given}: cannot be read: {error.strerror}") from error
        if not isinstance(document, NotYet) and "status" in document:
            return
        if age >= WRITTEN_SECONDS or time.monotonic() >= until:
            why = document.reason if isinstance(document, NotYet) else "it has no status"
            raise RankTableInvalid(
                f"--rank-table-file {given}: not a rank table: {why}\n"
                "  -> expected JSON as `ma_boot rank-table fake` prints it, not a list of hosts: "
                "`ma_boot rank-table generate` makes the table of a machine, `merge` that of several"
            )
        sleep(POLL_SECONDS)


def _no_such_device(device: int, count: int) -> ConfigError:
    return ConfigError(
        Message.of(
            "--devices names device {}, but this node has {}: expected 0 to {}", device, count, count - 1
        )
    )


def _stale(document: Mapping[str, Any], job: JobEnvironment, product: str | None) -> NotYet | None:
    """Returns the reason to wait for another table: a completed one may be left from an earlier start."""
    table = _parsed(document, product)
    pods, nodes = len(table.pods), job.node_count
    if job.node_count_given and table.template == "two" and pods != nodes:
        return NotYet(f"completed, but with {pods} pods where MA_NUM_HOSTS is {nodes}")
    # MindCluster writes each pod, with its address; in Volcano's tables the pods of a server are one entry.
    each_pod = bool(pods) and all("container_ip" in pod.more for pod in table.pods)
    # Only a HyperJob has more nodes than Volcano's variables tell, and its tables have super pods.
    is_whole = job.node_count_given or ("nodes" in job.place.sources and not document.get("super_pod_list"))
    if is_whole and (pods > nodes or (each_pod and pods != nodes)):
        return NotYet(f"completed, but with {pods} servers where the job has {nodes} nodes")
    try:
        _own_pod(table, job)
    except ConfigError as error:
        who = job.identity
        # Without an identity of this node a newer table does not help.
        if pods > nodes and not (who.name or who.uid or who.addresses):
            raise ConfigError(
                f"the rank table has {pods} servers, and no variable identifies this node: set "
                f"MA_NUM_HOSTS and VC_TASK_INDEX, or MA_CURRENT_HOST_IP, in the job's variables\n{error}"
            ) from error
        return NotYet(f"completed, but {error}")
    return None


def _parsed(document: Mapping[str, Any], product: str | None) -> RankTable:
    try:
        return parse(document, product)
    except Unreadable as error:
        raise _invalid(error.findings) from error


def _invalid(findings: Sequence[TableFinding]) -> RankTableInvalid:
    headline = Message("the rank table is completed, but invalid:")
    problems = listed(headline, [str(finding) for finding in findings])
    remedy = Message(
        "  -> if the platform wrote it: restart the job, and report it if that does not help; "
        "if you wrote it: check it with `ma_boot rank-table validate FILE`, outside of a job"
    )
    return RankTableInvalid(in_lines([*lines_of(problems), remedy]))


def _valid_table(options: RankOptions, document: Mapping[str, Any], say: Say) -> RankTable:
    """Returns the table with ranks, and prints its warnings; raises `RankTableInvalid` for errors."""
    table = _parsed(document, options.product)
    findings = validate(table, options.product)
    if errors(findings):
        raise _invalid(errors(findings))
    chosen = _with_devices(table, options.devices) if options.devices else table
    ranked = convert(chosen, options.rank_order, options.host_nic_ip or "")
    warnings = [*findings, *ranked.findings[len(table.findings) :]]
    for finding in warnings[:MOST_WARNINGS]:
        say(WarningLine(f"rank table: {finding}"))
    if len(warnings) > MOST_WARNINGS:
        say(WarningLine(f"rank table: {len(warnings) - MOST_WARNINGS} more warnings like these"))
    return ranked


def _with_devices(table: RankTable, devices: tuple[int, ...]) -> RankTable:
    """Returns the table with the chosen devices only: HCCL waits for every device in it."""
    if table.template != "two":
        raise ConfigError(
            "--devices: the rank table already has ranks; choose the devices when you generate it "
            "(ma_boot rank-table generate)"
        )
    fewest = min((len(pod.devices) for pod in table.pods), default=0)
    if devices[-1] >= fewest:
        raise _no_such_device(devices[-1], fewest)
    pods = (pod._replace(devices=tuple(pod.devices[place] for place in devices)) for pod in table.pods)
    return table._replace(pods=tuple(pods))


def _own_pod(table: RankTable, job: JobEnvironment) -> Pod | None:
    """Returns this container's entry; None for a table that is passed through."""
    if not table.pods:
        return None
    named = table.pods[0].name is not None
    return own_pod(table, job.identity if named else with_machine(job.identity))


def _with_nodes_of(table: RankTable, own: Pod | None, job: JobEnvironment) -> JobEnvironment:
    """Returns the job with the nodes of the table by rank, if they are more than the variables name."""
    count = len(table.pods)
    if own is None or job.node_count_given or count <= job.node_count:
        return job
    firsts = sorted(min((device.rank or 0 for device in pod.devices), default=-1) for pod in table.pods)
    rank = firsts.index(min((device.rank or 0 for device in own.devices), default=-1))
    place = job.place._replace(master=job.place.master or _address_of_rank_0(table))
    return job._replace(node_count=count, node_rank=rank, group_rank=rank, place=place)


def _address_of_rank_0(table: RankTable) -> str | None:
    """Returns the address of the server with rank 0; None if the table has none."""
    first = next((pod for pod in table.pods if any(device.rank == 0 for device in pod.devices)), None)
    if first is None:
        return None
    return str(first.more.get("host_ip") or first.more.get("container_ip") or first.server_id)


def _by_table(
    chosen: tuple[int, ...],
    rendezvous: str,
    file: str,
    table: RankTable,
    pod: Pod | None,
    job: JobEnvironment,
) -> Placement:
    """Returns the ranks of this pod's own devices: a server may hold two pods of a job.

    If the table is not the rendezvous, ranks follow the node numbers, so that rank 0 is on the master node.
    """
    if pod is None:
        return Placement(table.world_size, place_by_count(job).ranks, file)
    devices = [device for device in pod.devices if device.rank is not None]
    ranks = tuple(device.rank for device in devices if device.rank is not None)
    if rendezvous != "rank-table" and len({len(other.devices) for other in table.pods}) == 1:
        first = job.group_rank * len(ranks)
        ranks = tuple(range(first, first + len(ranks)))
    ids = tuple(int(device.device_id) for device in devices)
    return Placement(table.world_size, ranks, file, ids, chosen, server_id=pod.server_id)


def _by_hand(options: RankOptions, file: str, table: RankTable) -> Placement:
    """Returns the ranks from `--rank-start` on: as many as the server with that rank has in the table."""
    size, start = options.rank_size or table.world_size, options.rank_start or 0
    first = options.device_start or 0
    if size != table.world_size:
        raise ConfigError(f"--rank-size is {size}, but the rank table {file} has {table.world_size} devices")
    for pod in table.pods:
        here = [device for device in pod.devices if device.rank is not None and device.rank >= start]
        if any(device.rank == start for device in here):
            ids = tuple(int(device.device_id) for device in here)
            ranks = tuple(range(start, start + len(here)))
            return Placement(size, ranks, file, ids, tuple(range(first, first + len(here))), by_hand=True)
    raise ConfigError(f"--rank-start is {start}, but no server in {file} has this rank (it has {size})")


def write_table(placement: Placement, table: RankTable | None, job: JobEnvironment) -> None:
    """Writes the converted table, at each start: an earlier one may name replaced nodes.

    A template-one file of the user is used in its place. Raises `CannotCreate`.
    """
    if table is not None and placement.table_file == own_table_file(job):
        write_atomically(Path(placement.table_file), table.dumps())


def planned_by_route(
    placement: Placement,
    job: JobEnvironment,
    training: TrainingEnvironment,
    inbox: SignalInbox,
    say: Say,
) -> Placement:
    """Returns the placement as reordered by the platform's route planner, if the job asks for that."""
    server_id = placement.server_id
    if not job.route_plan or placement.table_file is None or server_id is None:
        return placement

    file = Path(placement.table_file)
    route = planned_route(training.python, file, server_id, environ=training.environ, inbox=inbox, say=say)
    return placement._replace(ranks=route[1], table_file=str(route[0])) if route else placement


def own_ranks(placement: Placement) -> str:
    """Returns the ranks of this node in words: `ranks 4-7, world size 8`."""
    ranks = placement.ranks
    if not ranks:
        return f"none of {placement.world_size} ranks on this node"
    return f"{ranks_text(ranks)}, world size {placement.world_size}"
