"""How the nodes of a job tell each other what happened, authenticated by a token of the job."""

from ma_boot.observe.channel.channel import NodeChannel as NodeChannel
from ma_boot.observe.channel.failures import failures_body as failures_body, read_failures as read_failures
from ma_boot.observe.channel.protocol import SHORTEST_TOKEN as SHORTEST_TOKEN, Address as Address
