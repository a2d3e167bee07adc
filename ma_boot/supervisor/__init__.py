"""Starts, watches and stops the processes of a launch plan."""

from ma_boot.supervisor.metrics import Metrics
from ma_boot.supervisor.peers import ALONE, PeerMessage, Peers
from ma_boot.supervisor.supervise import Limits, supervise

__all__ = ["ALONE", "Limits", "Metrics", "PeerMessage", "Peers", "supervise"]
