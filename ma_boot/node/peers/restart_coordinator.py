"""Restart coordinator: the effects of the restart protocol, and the failure for which a job is given up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ma_boot.node.peers.job_restart import AttemptEnd, RestartPolicy, Verdict
from ma_boot.node.peers.peer_exchange import PeerExchange
from ma_boot.node.peers.restart_protocol import ENDED, Over, over_body
from ma_boot.processes.signals import SignalInbox
from ma_boot.report.cause import Cause
from ma_boot.report.result import ExitStatus, RunResult

# Seconds between two looks at received messages while no process of the node runs.
POLL_SECONDS = 0.02


class PeerOver(Exception):
    """A node takes part no more, so no further attempt of all nodes can run."""


class RestartCoordinator:
    """Effects of the restart protocol (`restart_protocol.Agreement`): messages, the clock, waits."""

    def __init__(self, exchange: PeerExchange, inbox: SignalInbox) -> None:
        self._exchange = exchange
        self._inbox = inbox
        # Root cause of the last attempt, and the reports of all nodes; node 0 has decided by them.
        self.cause: Cause | None = None
        self.ends: Mapping[int, AttemptEnd] = {}
        # True once a rule has decided against another attempt.
        self._is_final = False
        self._has_left = False

    @property
    def is_joint(self) -> bool:
        """True if a failure anywhere ends the attempt on all nodes, for a restart of all."""
        return self._exchange.agreement.is_joint

    @property
    def attempt(self) -> int:
        """The attempt in which all nodes are if they restart together, from 1 on."""
        return self._exchange.attempt

    def begin(self, policy: RestartPolicy) -> None:
        """Begins the run: from now on a peer that starts anew is lost for it."""
        agreement = self._exchange.agreement
        self._exchange.agreement = agreement.begin(policy, bool(policy.budget and agreement.nodes > 1))

    def reason_to_stop(self) -> str:
        """Returns why the processes of this node have to stop; empty if they may run."""
        elsewhere = self._cause_elsewhere() if self.is_joint else None
        return str(elsewhere) if elsewhere is not None else self._exchange.agreement.why_stop

    def check_peers(self) -> None:
        """Raises `Stopped`, or `PeerOver` once a node takes part no more; for waits between two attempts."""
        self._inbox.check()
        self._exchange.receive()
        if self.is_joint and self._exchange.agreement.why_over:
            raise PeerOver(self._exchange.agreement.why_over)

    def leave(self, code: int) -> None:
        """Sends once that this node takes part in no further attempt, with its exit code as known by now.

        Called before the uploads, for which the other nodes need not wait.
        """
        if not self._has_left:
            self._has_left = True
            node = self._exchange.agreement.node
            self._exchange.channel.send("over", over_body(node, Over(ENDED, code)))

    def agree(self, end: AttemptEnd, run: RunResult) -> Verdict:
        """Returns node 0's verdict after an attempt, once all processes of all nodes are dead.

        Without an agreement in time no node starts another attempt. Raises `Stopped`.
        """
        exchange = self._exchange
        failures = exchange.own_causes.of_attempt(run)
        # Before this node reports its end: node 0 needs the failure to decide.
        exchange.root_cause(failures, run)
        exchange.agreement = exchange.agreement.stopped(end, time.monotonic())
        is_leader = not exchange.agreement.node
        if not is_leader:
            exchange.send_agreement(None)
        while True:
            cause = exchange.root_cause(failures, run)
            if exchange.channel.is_open or exchange.agreement.nodes == 1:
                exchange.agreement = exchange.agreement.decided(cause, time.monotonic())
            else:
                exchange.agreement = exchange.agreement.ended("there is no connection to the other nodes")
            verdict = exchange.agreement.verdict
            if verdict is not None:
                break
            self._inbox.check()
            time.sleep(POLL_SECONDS)
        # A verdict without a rule is no decision of node 0: a peer has gone, or did not answer.
        self.cause, self._is_final = cause, bool(verdict.rule) and not verdict.again
        self.ends = exchange.agreement.ends
        if is_leader:
            exchange.send_agreement(cause)
        if verdict.again:
            exchange.agreement = exchange.agreement.again()
        return verdict

    def count_reset(self) -> None:
        """Counts an attempt that no verdict has allowed: MindCluster's reset file has asked for it.

        Not in a job of several nodes: a peer may read the file later, and the attempts of verdicts would
        differ.
        """
        if self._exchange.agreement.nodes == 1:
            self._exchange.agreement = self._exchange.agreement.again()

    def failure_to_restart(self, why: str) -> ExitStatus | None:
        """Returns the failure for which the job is given up after an attempt, `why` if it is not known.

        None if the nodes do not restart together, or if this node was stopped first. A stop signal after node
        0's decision is no such stop: it is the platform's answer to the end of a faster node.
        """
        if not self.is_joint or (self._inbox.stops and not self._is_final):
            return None
        if self.cause is not None:
            return _failure_by(self.cause)
        return self._exchange.agreement.failure or ExitStatus(1, "training", why)

    def judged(self, run: RunResult) -> RunResult:
        """Returns the result of a run with the failure of another node by which the job has failed here, too.

        A node that has vanished without an exit code is such a failure. So a run that has succeeded waits
        until each node is known to be there or to have ended, for at most the longest outage that a job
        survives.
        """
        if self._inbox.stops:
            return run
        channel = self._exchange.channel
        self._exchange.receive()
        while run.succeeded and not self._inbox.stops and channel.away - self._exchange.agreement.over.keys():
            time.sleep(POLL_SECONDS)
            self._exchange.receive()
        return run._replace(stopped_for=run.stopped_for or self._failure_elsewhere(run))

    def _failure_elsewhere(self, run: RunResult) -> ExitStatus | None:
        """The failure of another node for which this one was stopped, or cannot have succeeded."""
        agreement = self._exchange.agreement
        lost = sorted(agreement.lost)
        if not lost and (run.succeeded or not self.is_joint):
            return None
        elsewhere = self._cause_elsewhere(lost)
        if elsewhere is not None:
            return _failure_by(elsewhere)
        return agreement.failure or (
            ExitStatus(1, "training", agreement.verdict.why) if agreement.verdict else None
        )

    def _cause_elsewhere(self, lost: Sequence[int] = ()) -> Cause | None:
        return self._exchange.book.first_elsewhere(self.attempt, lost)


def _failure_by(cause: Cause) -> ExitStatus:
    return ExitStatus(cause.code or 1, "training", str(cause))
