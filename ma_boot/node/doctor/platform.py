"""Checks of the platform's variables, the job's inputs and outputs, and the rank table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ma_boot.platform.modelarts.findings import ERROR, OK, WARNING, Finding
from ma_boot.platform.modelarts.job import JobEnvironment, read_channels
from ma_boot.platform.rank_table import Pod, RankTable, errors, validate

_NOT_SET = "do not set them in the job's environment variables or in the image"


def check_variables(environ: Mapping[str, str], job: JobEnvironment) -> Iterator[Finding]:
    """Checks that the variables are consistent."""
    nodes, hosts = environ.get("VC_WORKER_NUM", ""), len(job.place.hosts)
    # On other platforms these variables count the pods of one task, or of one child of a HyperJob.
    standard = job.platform.name in ("modelarts", "bare")
    # The YAML of a HyperJob may set MA_NUM_HOSTS, which then counts the pods of all children.
    of_part = not environ.get("MA_JOB_DIR")
    if standard and nodes.isdecimal() and _contradicts(int(nodes), job.node_count, of_part):
        yield Finding(
            "variables", ERROR, f"MA_NUM_HOSTS is {job.node_count}, VC_WORKER_NUM is {nodes}", _NOT_SET
        )
    if standard and hosts and _contradicts(hosts, job.node_count, of_part):
        yield Finding(
            "variables",
            ERROR,
            f"VC_WORKER_HOSTS has {hosts} names, MA_NUM_HOSTS is {job.node_count}",
            _NOT_SET,
        )
    if job.replaced:
        yield Finding(
            "variables", WARNING, f"variables of ModelArts' first version: {', '.join(job.replaced)}",
            "nothing to do for ma_boot; your own scripts should read today's names",
        )  # fmt: skip
    rivals = [name for name in ("CM_CHIEF_IP", "CM_WORKER_SIZE") if environ.get(name)]
    if rivals and (environ.get("RANK_TABLE_FILE") or environ.get("RANK_ID")):
        yield Finding(
            "variables", ERROR, f"{' and '.join(rivals)} beside RANK_TABLE_FILE or RANK_ID: HCCL accepts one",
            "unset one of the two",
        )  # fmt: skip
    timeout = environ.get("HCCL_CONNECT_TIMEOUT", "")
    if timeout and not (timeout.isdecimal() and 120 <= int(timeout) <= 7200):
        yield Finding(
            "variables", ERROR, f"HCCL_CONNECT_TIMEOUT is {timeout!r}", "HCCL accepts 120 to 7200 seconds"
        )
    yield Finding("job", OK, job.summary())


def _contradicts(counted: int, nodes: int, of_part: bool) -> bool:
    """Tells if Volcano's number of nodes is wrong; for a part of the job a smaller number is right."""
    return counted > nodes if of_part else counted != nodes


def describe_platform(environ: Mapping[str, str], job: JobEnvironment) -> Finding:
    """Shows the platform, and the values of the job with their sources."""
    devices = "unknown" if job.device_count is None else str(job.device_count)
    master = job.place.master or ",".join(job.place.hosts[:1]) or "none"
    addresses = ", ".join(job.identity.addresses) or "those of the machine"
    # Name, value, and the field whose source is shown.
    rows = (
        ("job", job.name, "job"),
        ("node", str(job.node_rank), "node"),
        ("nodes", str(job.node_count), "nodes"),
        ("devices", devices, "devices"),
        ("master", master, "master" if job.place.master else "hosts"),
        ("pod", job.place.pod or "unknown", "pod"),
        ("addresses", addresses, "addresses" if job.place.addresses else "host"),
        ("table", job.place.table or "none", "table"),
    )
    lines = [f"{name:10} {value:40} {job.place.sources.get(field, 'default')}" for name, value, field in rows]
    lines.append(f"{'log':10} {job.log_dir:40} {'MA_LOG_DIR' if environ.get('MA_LOG_DIR') else 'default'}")
    return Finding("platform", OK, "\n".join([f"{job.platform}, {job.platform.why}", *lines]))


def list_channels(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Shows the job's inputs and outputs."""
    given, problems = read_channels(environ)
    for problem in problems:
        yield Finding("channels", WARNING, problem, "do not set it in the job's environment variables")
    if given:
        lines = [
            f"{channel.kind[:-1]} {channel.name}: {channel.local_dir} ({channel.url})" for channel in given
        ]
        yield Finding("channels", OK, "\n".join(lines))


def check_table(
    job: JobEnvironment, completed: RankTable | None, own: Pod | None, not_found: str
) -> Iterator[Finding]:
    """Checks that the `completed` table is valid, and consistent with the variables.

    `own` is this container in the table; `not_found` is the reason if it is not in it.
    """
    if completed is None:
        return
    problems = errors(validate(completed))
    if problems:
        yield Finding(
            "rank table",
            ERROR,
            "\n".join(map(str, problems)),
            "resubmit the job: the platform writes this file",
        )
        return
    yield Finding("rank table", OK, f"{len(completed.pods)} pods, {completed.world_size} devices")
    if job.node_count_given and completed.template == "two" and len(completed.pods) != job.node_count:
        yield Finding(
            "rank table", ERROR, f"{len(completed.pods)} pods, MA_NUM_HOSTS is {job.node_count}",
            "wait, since this may be an older table; or resubmit the job",
        )  # fmt: skip
    if not_found:
        yield Finding(
            "rank table", ERROR, not_found, "wait for this job's table, since this may be an older one"
        )
    if own is not None and job.device_count not in (None, len(own.devices)):
        yield Finding(
            "rank table", WARNING,
            f"this container has {len(own.devices)} devices in the table, MA_NUM_GPUS is {job.device_count}",
            "nothing to do for ma_boot, which goes by the table; other launchers start MA_NUM_GPUS processes",
        )  # fmt: skip
