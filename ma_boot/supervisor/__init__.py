"""Starts, watches and stops the processes of a launch plan."""

from ma_boot.observe.peers import ALONE as ALONE, PeerMessage as PeerMessage, Peers as Peers
from ma_boot.observe.sampler import Metrics as Metrics
from ma_boot.supervisor.supervise import Limits as Limits, supervise as supervise
