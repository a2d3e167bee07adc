"""Opens a node's channel to its peers, where the job has a token and the variables have the addresses."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from ma_boot.errors import ConfigError
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.platform.modelarts.job import JOB_TOKEN, JobEnvironment
from ma_boot.platform.rank_table import RankTable, own_pod

if TYPE_CHECKING:
    from ma_boot.node.observe.channel.channel import NodeChannel


def check_token(token: str) -> None:
    """Raises `ConfigError` for a token that is too short to keep strangers out."""
    from ma_boot.node.observe.channel.protocol import SHORTEST_TOKEN  # only for jobs that have one

    if len(token) < SHORTEST_TOKEN:
        raise ConfigError(
            f"{JOB_TOKEN} has {len(token)} characters: expected at least {SHORTEST_TOKEN}, the "
            "same on all nodes and in no other job, for example from `openssl rand -hex 16`"
        )


def open_channel(token: str, job: JobEnvironment, port: int, context: ProcessContext) -> NodeChannel:
    """Listens as node 0, or calls it if the platform's variables tell its address.

    Raises `RuntimeError` at the limit of threads.
    """
    from ma_boot.node.observe.channel.channel import NodeChannel
    from ma_boot.node.observe.channel.protocol import Address

    own = Address(_own_address(job), port)
    channel = NodeChannel(
        token,
        job=job.place.job or "",
        node=job.node_rank,
        nodes=job.node_count,
        own=own,
        inbox=context.inbox,
    )
    if channel.problem:
        context.journal.warn(
            f"this node hears nothing of the others: {channel.problem} (MABOOT_CHANNEL_PORT)"
        )
    if len(job.place.hosts) == job.node_count:
        channel.meet(Address(job.place.hosts[0], port))
    return channel


def meet_by_table(channel: NodeChannel, table: RankTable | None, job: JobEnvironment, port: int) -> None:
    """Calls node 0 at its address in the rank table, if only the table has it."""
    from ma_boot.node.observe.channel.protocol import Address

    if table is None or len(job.place.hosts) == job.node_count:
        return
    pods = table.pods
    if len(pods) == job.node_count and pods.index(own_pod(table, job.identity)) == job.node_rank:
        node_0 = pods[0]
        host = node_0.more.get("container_ip") or node_0.more.get("host_ip") or node_0.server_id
        channel.meet(Address(str(host), port))


def _own_address(job: JobEnvironment) -> str:
    """This node's address if the variables have it as such, else all addresses: no name is looked up here."""
    known = len(job.place.hosts) == job.node_count
    for host in (job.place.hosts[job.node_rank],) if known else job.identity.addresses:
        try:
            return str(ip_address(host))
        except ValueError:
            continue
    return ""
