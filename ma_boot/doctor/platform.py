"""What the platform says: its variables against each other and the rank table, and its channels. Pure."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional

from ma_boot.doctor.findings import ERROR, OK, WARNING, Finding
from ma_boot.errors import ConfigError
from ma_boot.modelarts import JobEnvironment, read_channels
from ma_boot.rank_table import RankTable, errors, own_pod, validate


def variables(environ: Mapping[str, str], job: JobEnvironment) -> Iterator[Finding]:
    """The variables against each other."""
    nodes, hosts = environ.get("VC_WORKER_NUM", ""), len(job.worker_hosts)
    if nodes.isdecimal() and int(nodes) != job.node_count:
        yield Finding(
            "variables", ERROR, f"MA_NUM_HOSTS says {job.node_count} nodes, VC_WORKER_NUM {nodes}",
            "set neither of them in the job's environment variables or in the image",
        )  # fmt: skip
    if hosts and hosts != job.node_count:
        yield Finding(
            "variables", ERROR, f"VC_WORKER_HOSTS has {hosts} names, MA_NUM_HOSTS is {job.node_count}",
            "set neither of them in the job's environment variables or in the image",
        )  # fmt: skip
    if job.replaced:
        yield Finding(
            "variables", WARNING, f"variables of ModelArts' first version: {', '.join(job.replaced)}",
            "ma_boot reads them; scripts of your own should read the names of today",
        )  # fmt: skip
    tables = [name for name in ("CM_CHIEF_IP", "CM_WORKER_SIZE") if environ.get(name)]
    if tables and (environ.get("RANK_TABLE_FILE") or environ.get("RANK_ID")):
        yield Finding(
            "variables", ERROR, f"{' and '.join(tables)} beside RANK_TABLE_FILE or RANK_ID: HCCL takes one",
            "take one of the two away",
        )  # fmt: skip
    timeout = environ.get("HCCL_CONNECT_TIMEOUT", "")
    if timeout and not (timeout.isdecimal() and 120 <= int(timeout) <= 7200):
        yield Finding(
            "variables", ERROR, f"HCCL_CONNECT_TIMEOUT is {timeout!r}", "HCCL takes 120 to 7200 seconds"
        )
    yield Finding("job", OK, job.said())


def channels(environ: Mapping[str, str]) -> Iterator[Finding]:
    """The job's inputs and outputs."""
    found, problems = read_channels(environ)
    for problem in problems:
        yield Finding("channels", WARNING, problem, "do not set it in the job's environment variables")
    if found:
        said = [f"{one.kind[:-1]} {one.name}: {one.local_dir} ({one.url})" for one in found]
        yield Finding("channels", OK, "\n".join(said))


def table(job: JobEnvironment, found: Optional[RankTable]) -> Iterator[Finding]:
    """The completed table by its own rules, and against the variables."""
    if found is None:
        return
    problems = errors(validate(found))
    if problems:
        yield Finding(
            "rank table",
            ERROR,
            "\n".join(map(str, problems)),
            "start the job again: the platform writes this file",
        )
        return
    yield Finding("rank table", OK, f"{len(found.pods)} pods, {found.world_size} devices")
    if job.node_count_given and found.template == "two" and len(found.pods) != job.node_count:
        yield Finding(
            "rank table", ERROR, f"{len(found.pods)} pods, MA_NUM_HOSTS is {job.node_count}",
            "an older table may be there still: wait, or start the job again",
        )  # fmt: skip
    try:
        pod = own_pod(found, job.instance_name, job.host_ip, job.node_rank) if found.pods else None
    except ConfigError as error:
        yield Finding(
            "rank table", ERROR, str(error), "an older table may be there still: wait for this job's"
        )
        return
    if pod is not None and job.device_count not in (None, len(pod.devices)):
        yield Finding(
            "rank table", WARNING,
            f"this container has {len(pod.devices)} devices in the table, MA_NUM_GPUS is {job.device_count}",
            "ma_boot starts as many processes as the table has devices; other ways start MA_NUM_GPUS",
        )  # fmt: skip
