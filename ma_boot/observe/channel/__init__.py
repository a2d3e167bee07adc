"""How the nodes of a job tell each other what happened, authenticated by a token of the job."""

from ma_boot.observe.channel.channel import NodeChannel as NodeChannel
from ma_boot.observe.channel.failures import told as told, told_by as told_by
from ma_boot.observe.channel.protocol import SHORTEST_TOKEN as SHORTEST_TOKEN, Address as Address
