"""The job's other nodes, for the rest of a node: the `Peers` of its observers, and an `Observer` itself."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

from ma_boot.node.launch.launch_plan import Placement
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.peers.failure_book import RankOwners
from ma_boot.node.peers.mailbox import HANGS, RANKS, SAVES, UPLOADS
from ma_boot.node.peers.peer_channel import FLUSH_SECONDS, PeerChannel
from ma_boot.node.peers.peer_exchange import PeerExchange
from ma_boot.node.peers.restart_coordinator import POLL_SECONDS, RestartCoordinator
from ma_boot.node.peers.upload_barrier import UploadBarrier
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.platform.modelarts.job import JobEnvironment
from ma_boot.platform.rank_table import RankTable
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.cause import OWN, Cause, cause_of, causes_of
from ma_boot.report.exit_report import Ending, exit_status
from ma_boot.report.journal import Journal
from ma_boot.report.result import ExitStatus

if TYPE_CHECKING:
    from ma_boot.node.observe.channel.channel import NodeChannel

# Seconds; max. wait for peers' failure reports at the end of a node. A rank that lost its peer may fail long
# before the one that it lost has printed its exception.
CAUSE_SECONDS = 0.8
# Likewise if nothing failed here and the platform stops this node: the failing node reports before that.
STOPPED_SECONDS = 0.5
# Likewise if this node failed by itself: ranks of several nodes often fail at the same moment.
TOGETHER_SECONDS = 0.3


class JobPeers:
    """The other nodes of a job: none without a token, or in a job of one node.

    Errors of the channel are logged and never change how the job ends. `connect` opens the channel, in tests
    another one than `connected_channel`.
    """

    without = PeerChannel.without

    def __init__(
        self,
        token: str,
        inbox: SignalInbox,
        journal: Journal,
        connect: Callable[..., NodeChannel] | None = None,
    ) -> None:
        self._inbox = inbox
        self._journal = journal
        self.uploads = UploadBarrier(self)
        self._channel = PeerChannel(token, inbox, journal, connect)
        self._exchange = PeerExchange(self._channel)
        self.restarts = RestartCoordinator(self._exchange, inbox)
        self._workers: Sequence[Worker] = ()
        # True once a process of `_workers` has failed by itself.
        self._has_failed = False

    def __enter__(self) -> JobPeers:
        return self

    def __exit__(self, *exc: object) -> None:
        self._channel.close()

    @property
    def node(self) -> int:
        """The number of this node."""
        return self._channel.node

    @property
    def nodes(self) -> int:
        """The number of nodes of the job."""
        return self._channel.nodes

    @property
    def is_connected(self) -> bool:
        """True while there is a channel, even if no peer has called yet."""
        return self._channel.is_open

    @property
    def others(self) -> Collection[int]:
        """The nodes that receive this node's messages, and have not sent their last one."""
        return set(self._channel.peers) - self._exchange.book.exit_codes.keys()

    @property
    def connected(self) -> Collection[int]:
        """The nodes that were connected at least once."""
        return self._channel.connected

    @property
    def unreached(self) -> Collection[int]:
        """The nodes that were connected and are not any more."""
        return self._channel.unreached

    @property
    def leader_exit(self) -> int | None:
        """The exit code with which node 0 has ended its processes; None before, and on node 0."""
        over = self._exchange.agreement.over.get(0) if self.node else None
        return over.code if over is not None else None

    def open(self, job: JobEnvironment, port: int) -> None:
        """Opens the channel, if the job has several nodes and a token.

        Raises `ConfigError` for a token that is too short.
        """
        self._exchange.identify(job.node_rank, job.node_count)
        self._channel.open(job, port)

    def meet(self, placement: Placement, table: RankTable | None, job: JobEnvironment, port: int) -> None:
        """Takes the ranks of this node, and the address of node 0 if only the rank table has it."""
        self._exchange.identify(job.node_rank, job.node_count)
        self._exchange.owners = RankOwners.of(
            job.node_rank, job.node_count, placement.ranks, placement.world_size
        )
        self._channel.meet(job, table, port)

    def await_start(self) -> ExitStatus | None:
        """Waits until all nodes are ready to start their ranks; see `StartBarrier`."""
        from ma_boot.node.peers.start_barrier import StartBarrier

        return StartBarrier(self._exchange, self._inbox, self._journal).wait()

    def has_rank(self, node: int, rank: int) -> bool:
        """Returns whether a peer may report this rank as its own."""
        return self._exchange.owners.has_rank(node, rank)

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to node 0, or from there to all others, in the background; without secrets."""
        self._channel.send(kind, body)

    def heard(self) -> list[PeerMessage]:
        """Returns the messages about hangs since the last call, without ends of an earlier attempt."""
        attempt, messages = self._exchange.attempt, self._exchange.mailbox.take(HANGS)
        return [message for message in messages if message.body.get("attempt", attempt) == attempt]

    def heard_of_saves(self) -> list[PeerMessage]:
        """Returns the messages about requested checkpoints since the last call; from any thread."""
        return self._exchange.mailbox.take(SAVES)

    def heard_of_ranks(self) -> list[PeerMessage]:
        """Returns the messages about script ranks since the last call."""
        return self._exchange.mailbox.take(RANKS)

    def heard_of_uploads(self) -> list[PeerMessage]:
        """Returns the messages about uploads to shared outputs since the last call; from any thread."""
        return self._exchange.mailbox.take(UPLOADS)

    def listen(self) -> None:
        """Receives messages while no processes run."""
        self._exchange.receive()
        with self._channel.best_effort():
            self.uploads.relay()

    def patience(self) -> float:
        """Returns the seconds until the next report of uploads; a message wakes the inbox."""
        return self.uploads.patience()

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Reports the first failure of this node at once; returns why its ranks have to stop, mostly empty.

        They stop for a lost node and, if the nodes restart together, for a failure or the end of any node.
        """
        if self._inbox.stops:
            # Before the uploads of this node, which may take long: the others need not wait for them.
            self.restarts.leave(128 + self._inbox.stops[0])
        if self.is_connected:
            with self._channel.best_effort():
                self._report_failures(workers)
                self.uploads.relay()
        return self.restarts.reason_to_stop()

    def close(self) -> None:
        """Reports how the processes have ended."""
        ends = [worker.exit for worker in self._workers if worker.exit is not None]
        if self.others:
            codes = [[ended.rank, ended.code] for ended in ends if ended.rank is not None]
            self.tell("ended", {"codes": codes, "attempt": self._exchange.attempt})

    def _report_failures(self, workers: Sequence[Worker]) -> None:
        # Each attempt has a new list of workers.
        if workers is not self._workers:
            self._workers, self._has_failed = workers, False
        ends = [end for worker in workers for end in worker.ends()]
        peer_has_failed = self._exchange.receive()
        has_failed = any(ended.code and not ended.stopped for ended in ends)
        if peer_has_failed or (has_failed and not self._has_failed):
            self._has_failed = self._has_failed or has_failed
            # After a failure elsewhere also ranks that still run: a rank that has raised may end long after
            # the peers that lost it.
            running = [worker.so_far() for worker in workers if worker.exit is None and peer_has_failed]
            own_causes = self._exchange.own_causes
            self._exchange.root_cause(causes_of([*ends, *running], self.node, own_causes.epoch), None)

    def root_cause(self, ending: Ending) -> tuple[Cause | None, bool]:
        """Returns the root cause of the job's end, and whether all nodes name it: else it is this node's.

        Sends what this node knows, waits for its peers for at most a second, and records the cause as an
        event.
        """
        own_causes, status = self._exchange.own_causes, exit_status(ending)
        own, is_agreed = own_causes.of_end(ending, status), False
        cause = cause_of(own) or own_causes.hang_of(ending.run)
        if status.by == "signal" and (ending.run is None or ending.run.first_failure is None):
            cause = None
        if self.is_connected:
            with self._channel.best_effort():
                agreed = self._await_root_cause(status, own, ending)
                # The channel may have failed meanwhile: then this node knows its own failures only.
                if self.is_connected:
                    cause, is_agreed = agreed, True
        if cause is None or not status.code:
            return None, False
        self._journal.event("job cause", cause=cause.fields())
        return cause, is_agreed

    def _await_root_cause(self, status: ExitStatus, own: Sequence[Cause], ending: Ending) -> Cause | None:
        """Returns the root cause by the reports of all nodes that arrive in time, and sends the last message.

        A node that failed by itself waits for failures at the same moment, so that all nodes name the same
        one. A node without a failed rank, or whose ranks lost a peer, waits longer.
        """
        began, cause = time.monotonic(), self._exchange.root_cause(own, ending.run)
        left = ("left", {"code": status.code})
        # Node 0 sends its last message after the wait: it passes the root cause on until then.
        if self.node:
            self.tell(*left)
        is_hung = self._exchange.own_causes.hang_of(ending.run) is not None
        patience = (CAUSE_SECONDS if own or is_hung else STOPPED_SECONDS) if status.code else 0.0
        while True:
            is_certain = cause is not None and cause.evidence == OWN
            seconds = began + (min(patience, TOGETHER_SECONDS) if is_certain else patience) - time.monotonic()
            awaited = set(self.others)
            if not self.node:
                awaited -= set(self._exchange.book.failed_nodes(self.restarts.attempt))
            if seconds <= 0 or (is_certain and not awaited) or self._exchange.agreement.verdict is not None:
                break
            time.sleep(min(seconds, POLL_SECONDS))
            cause = self._exchange.root_cause(own, ending.run)
        if not self.node:
            self.tell(*left)
        # A failure is worth a longer wait: node 0 may just be connecting.
        unsent = began + CAUSE_SECONDS - time.monotonic() if own else 0.0
        # A node whose success is not known to its peers counts as lost.
        self._channel.flush(max(FLUSH_SECONDS, unsent), outlast_outage=not status.code)
        return cause
