"""How the nodes of a job tell each other what happened, authenticated by a token of the job."""

from ma_boot.channel.channel import NodeChannel
from ma_boot.channel.failures import JobFailure, failures_of, first_failure_of, readable, told, told_by
from ma_boot.channel.protocol import SHORTEST_TOKEN, Address

__all__ = [
    "SHORTEST_TOKEN",
    "Address",
    "JobFailure",
    "NodeChannel",
    "failures_of",
    "first_failure_of",
    "readable",
    "told",
    "told_by",
]
