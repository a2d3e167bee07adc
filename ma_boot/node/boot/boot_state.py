"""State of a node's boot that its phases share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.request import BootRequest
from ma_boot.node.peers.job_peers import JobPeers
from ma_boot.node.transfers.mapping import NodeTransfers
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.journal import Journal

if TYPE_CHECKING:
    from ma_boot.node.boot.start_ledger import LedgerOfStart


class Boot(NamedTuple):
    """The boot of one node of a job, from the moment at which the job is known.

    `context` has no token of the channel. `transfers` are None without a path mapping, `ledger` where the job
    has none, and on all nodes but node 0.
    """

    request: BootRequest
    context: ProcessContext
    peers: JobPeers
    job: JobEnvironment
    transfers: NodeTransfers | None = None
    ledger: LedgerOfStart | None = None

    @property
    def inbox(self) -> SignalInbox:
        """The stop signals of this process."""
        return self.context.inbox

    @property
    def journal(self) -> Journal:
        """The journal of this process."""
        return self.context.journal
