"""The way to the job's other nodes, if the job has a token; and what all of them know of the job's cause."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import (
    TYPE_CHECKING,
    Any,
)

from ma_boot.errors import ExitCode, described
from ma_boot.node.boot.job_restart import AttemptEnd, RestartPolicy, Verdict
from ma_boot.node.boot.open_channel import check_token, meet_by_table, open_channel
from ma_boot.node.boot.own_causes import OwnCauses
from ma_boot.node.boot.process_context import ProcessContext
from ma_boot.node.boot.restart_protocol import ENDED, MUTE, Agreement, Over, over_body
from ma_boot.node.boot.upload_barrier import UploadBarrier
from ma_boot.node.launch.launch_plan import Placement
from ma_boot.node.observe.peers import PeerMessage
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.platform.modelarts.job import JOB_TOKEN, JobEnvironment
from ma_boot.platform.rank_table import RankTable
from ma_boot.redact import masked
from ma_boot.report.cause import OWN, Cause, cause_of, causes_of
from ma_boot.report.exit_report import Ending, ExitStatus, exit_status
from ma_boot.report.result import JobFailure, RunResult
from ma_boot.wording import coded

if TYPE_CHECKING:
    from ma_boot.node.observe.channel.channel import NodeChannel

CAUSE_SECONDS = 0.8  # that the end of a node whose ranks lost others waits for their words, at most
STOPPED_SECONDS = 0.5  # if nothing failed here: others tell theirs before the platform stops this node
TOGETHER_SECONDS = 0.3  # that a node which has failed waits for failures of others at the same time
MOST_UNREAD = 4096  # messages about hangs, and about saves
_OF_FAILURES = ("failed", "cause", "go")
_FLUSH_SECONDS = 0.15
_POLL_SECONDS = 0.02


class PeerOver(Exception):
    """A node takes part no more, so no further attempt of all nodes can run."""


class OtherNodes:
    """The other nodes of a job, as `Peers` and as an `Observer`.

    Without a token, or in a job of one node, there are none. Node 0 hears what failed on the others, and
    tells them the cause that follows from all of it.

    What goes wrong on the way to them is said, and ends that way, never the job. `context` is this process's
    context without the token.
    """

    without = "this node goes on without the others"

    def __init__(self, context: ProcessContext) -> None:
        environ = dict(context.environ)
        self._token = environ.pop(JOB_TOKEN, "")
        self.context = context._replace(environ=environ)
        self.node = 0
        self._epoch = time.time() - time.monotonic()
        self._own: Sequence[int] = ()
        self._in_order = False  # each node has as many ranks as this one, in the order of the nodes
        self.nodes = 1
        self._channel: NodeChannel | None = None
        self._failures: dict[tuple[int, int], list[Cause]] = {}  # by attempt and node
        self._left: dict[int, object] = {}  # the exit codes of nodes that have said that they end
        self._told: list[tuple[int, int, int | None, str]] = []
        self._of_hangs: deque[PeerMessage] = deque(maxlen=MOST_UNREAD)
        self._of_saves: deque[PeerMessage] = deque(maxlen=MOST_UNREAD)
        self._of_uploads: deque[PeerMessage] = deque(maxlen=MOST_UNREAD)
        self.uploads = UploadBarrier(self)
        self._workers: Sequence[Worker] = ()
        self._has_failed = False  # a process of this node
        self._agreement = Agreement()
        self._decided: tuple[Cause | None, bool] = None, False  # cause; whether no attempt follows it
        self._boot = os.urandom(8).hex()  # of this process: another one of the same node is another peer
        self._has_left = False
        self._passed_on: set[int] = set()  # nodes of which the others know that they take part no more

    def __enter__(self) -> OtherNodes:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._only_helping():
            if self._channel is not None:
                self._channel.close()

    @contextmanager
    def _only_helping(self) -> Iterator[None]:
        """Gives up the channel if the block raises."""
        try:
            yield
        except Exception as error:
            self._give_up(described(error))

    def _give_up(self, reason: str) -> None:
        channel, self._channel = self._channel, None
        self.context.journal.warn(f"{self.without}: {reason}")
        if channel is not None:
            with suppress(Exception):  # without a word, this node would count as lost
                channel.tell("over", over_body(self.node, Over(MUTE)))
                channel.flush(_FLUSH_SECONDS)
            with suppress(Exception):
                channel.close()

    @property
    def talks(self) -> bool:
        """True while there is a channel to the other nodes."""
        return self._channel is not None

    def begin(self, policy: RestartPolicy) -> None:
        """The run begins; with restarts, a failure of any node ends the attempt on all."""
        self._agreement = self._agreement.begin(policy, bool(policy.budget and self.nodes > 1))

    @property
    def together(self) -> bool:
        """True if a failure anywhere ends the attempt on all nodes, for a restart."""
        return self._agreement.together

    @property
    def attempt(self) -> int:
        """The attempt in which all nodes are that restart together, from 1 on."""
        return self._agreement.attempt

    @property
    def others(self) -> Collection[int]:
        """The nodes that hear this one, and have not said that they end."""
        return self._channel.others - self._left.keys() if self._channel is not None else ()

    @property
    def unreached(self) -> Collection[int]:
        """The nodes that were connected, and are not any more."""
        return self._channel.unreached & self._channel.connected if self._channel is not None else ()

    def open(self, job: JobEnvironment, port: int) -> None:
        """Listens as node 0, or calls it if the platform's variables tell its address.

        Raises `ConfigError` for a token that is too short.
        """
        self.node, self.nodes = job.node_rank, job.node_count
        self._agreement = Agreement(self.node, self.nodes)
        if job.node_count < 2:
            return
        if not self._token:
            self.context.journal.warn(
                f"{JOB_TOKEN} is not set: failures, hangs and losses of the other {job.node_count - 1} nodes "
                "are not detected here; set it to the same random text on all nodes, and to another one in "
                "each job, for example from `openssl rand -hex 16`"
            )
            return
        check_token(self._token)
        with self._only_helping():
            self._channel = open_channel(self._token, job, port, self.context)
            self._channel.tell("here", {"boot": self._boot})

    def meet(self, placement: Placement, table: RankTable | None, job: JobEnvironment, port: int) -> None:
        """Knows the ranks of this node from now on, and the address of node 0 if only the table has it.

        A table with more nodes than the variables told of (HyperJob) closes the channel, which is of a part.
        """
        if job.node_count != self.nodes:
            if self.talks:
                self._give_up(
                    f"the rank table has {job.node_count} nodes, the variables told of {self.nodes}"
                )
            self._agreement = Agreement(job.node_rank, job.node_count)
        self.node, self.nodes = job.node_rank, job.node_count
        self._own, each = placement.ranks, len(placement.ranks)
        first = self.node * each
        self._in_order = placement.world_size == job.node_count * each and [*self._own] == [
            *range(first, first + each)
        ]
        with self._only_helping():
            if self._channel is not None:
                meet_by_table(self._channel, table, job, port)

    def has_rank(self, node: int, rank: int) -> bool:
        """Whether another node may speak of this rank as its own."""
        return rank // len(self._own) == node if self._in_order else rank >= 0 and rank not in self._own

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to node 0, or from there to all others, in the background; without secrets."""
        with self._only_helping():
            if self._channel is not None:
                self._channel.tell(kind, coded(masked(body)))

    def _tell(self, kind: str, failures: Sequence[Cause]) -> None:
        """Tells what was not told yet."""
        from ma_boot.node.observe.channel.failures import failures_body

        known = [(self.attempt, failure.node, failure.rank, failure.words) for failure in failures]
        if known and known != self._told:
            self._told = known
            self.tell(kind, {"attempt": self.attempt, **failures_body(failures)})

    def patience(self) -> float:
        """Until the next report of uploads; a message wakes the inbox."""
        return self.uploads.patience()

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Tells the first failure of this node at once, and who has raised here after one of another node.

        The ranks of this node are stopped for a lost node; where the job restarts together, also for a
        failure or the end of another node.
        """
        if self.context.inbox.stops:  # what is left to do may take long, and the others need not wait for it
            self.leave(128 + self.context.inbox.stops[0])
        if self.talks:
            with self._only_helping():
                self._check(workers)
                self.uploads.relay()
        elsewhere = self._cause_elsewhere() if self.together else None
        return str(elsewhere) if elsewhere is not None else self._agreement.why_stop

    def check_peers(self) -> None:
        """For waits between two attempts: raises `Stopped`, and `PeerOver` once a node takes part no more."""
        self.context.inbox.check()
        with self._only_helping():
            self._take()
        if self.together and self._agreement.why_over:
            raise PeerOver(self._agreement.why_over)

    def leave(self, code: int) -> None:
        """Tells that this node takes part in no further attempt; its exit code is `code`, as far as is known.

        Before its uploads: the other nodes need not wait for these. Later calls do nothing.
        """
        if not self._has_left:
            self._has_left = True
            self.tell("over", over_body(self.node, Over(ENDED, code)))

    def _check(self, workers: Sequence[Worker]) -> None:
        if workers is not self._workers:  # of a further run
            self._workers, self._has_failed = workers, False
        ends = [worker.exit for worker in workers if worker.exit is not None]
        another_failed, failed = self._take(), any(ended.code and not ended.stopped for ended in ends)
        if another_failed or (failed and not self._has_failed):
            self._has_failed = self._has_failed or failed
            running = [worker.so_far() for worker in workers if worker.exit is None and another_failed]
            self._first(causes_of([*ends, *running], self.node, self._epoch), None)

    def close(self) -> None:
        """Tells how the processes have ended."""
        ends = [worker.exit for worker in self._workers if worker.exit is not None]
        if self.node and self.others:
            self.tell(
                "ended", {"codes": [[ended.rank, ended.code] for ended in ends if ended.rank is not None]}
            )

    def heard(self) -> list[PeerMessage]:
        """The messages about hangs since the last call."""
        messages = list(self._of_hangs)
        self._of_hangs.clear()
        return messages

    def heard_of_saves(self) -> list[PeerMessage]:
        """The messages about checkpoints since the last call, which another thread may make."""
        return [self._of_saves.popleft() for _ in range(len(self._of_saves))]

    def heard_of_uploads(self) -> list[PeerMessage]:
        """The messages about uploads to shared outputs since the last call, which another thread may make."""
        return [self._of_uploads.popleft() for _ in range(len(self._of_uploads))]

    def listen(self) -> None:
        """Takes what has come while no processes run."""
        with self._only_helping():
            self._take()
            self.uploads.relay()

    def _take(self) -> bool:
        """Takes what has come; whether another node has told a failure."""
        if self._channel is None:
            return False
        from ma_boot.node.observe.channel.failures import read_failures

        another_failed = False
        for message in self._channel.heard():
            self._agreement = self._agreement.with_message(message.node, message.kind, message.body)
            if message.kind in _OF_FAILURES:
                attempt = message.body.get("attempt", self.attempt)
                failures = read_failures(message.node, message.body, self.has_rank)
                if failures and attempt in (self.attempt, self.attempt + 1):
                    self._failures[attempt, message.node] = failures
                another_failed = another_failed or attempt == self.attempt
            elif message.kind == "left":
                self._left[message.node] = message.body.get("code")
            elif message.kind in ("save", "uploads"):
                (self._of_saves if message.kind == "save" else self._of_uploads).append(message)
            elif message.kind not in ("stopped", "over", "here"):
                self._of_hangs.append(message)
        for node in self._channel.dead:
            self._agreement = self._agreement.with_lost(node)
        self._pass_on()
        return another_failed

    def _pass_on(self) -> None:
        """Node 0 tells the others, which are connected to it alone, by whose end the job has failed."""
        for node, over in self._agreement.over.items() if not self.node else ():
            if over.is_failure and node not in self._passed_on:
                self._passed_on.add(node)
                self.tell("over", over_body(node, over))

    def agreed(self, own: AttemptEnd, run: RunResult) -> Verdict:
        """What node 0 decides after an attempt, once all processes of all nodes are dead.

        Where that cannot be agreed, no node starts again. Raises `Stopped`.
        """
        failures = self._own_causes.of_attempt(run)
        self._first(failures, run)  # node 0 hears of a failure before it decides
        self._agreement = self._agreement.stopped(own, time.monotonic())
        if self.node:
            self._tell_agreement(None)
        while True:
            cause = self._first(failures, run)
            if self.talks:
                self._agreement = self._agreement.decided(cause, time.monotonic())
            else:
                self._agreement = self._agreement.ended("there is no way to the other nodes")
            if self._agreement.verdict is not None:
                break
            self.context.inbox.check()
            time.sleep(_POLL_SECONDS)
        verdict = self._agreement.verdict
        self._decided = cause, bool(verdict.rule) and not verdict.again
        if not self.node:
            self._tell_agreement(cause)
        if verdict.again:
            self._agreement = self._agreement.again()
        return verdict

    def _tell_agreement(self, cause: Cause | None) -> None:
        """Tells how far this node is, and with node 0's verdict the cause of it."""
        from ma_boot.node.observe.channel.failures import failures_body

        if self._agreement.message is not None:
            kind, body = self._agreement.message
            self.tell(kind, {**body, **failures_body([cause] if cause is not None else [])})

    @property
    def _own_causes(self) -> OwnCauses:
        return OwnCauses(self.node, self._epoch)

    def given_up(self, why: str) -> JobFailure | None:
        """The failure that ends a job that restarts together: its cause, else `why`; None if it is stopped.

        After node 0's decision a stop is the platform's answer to the end of a faster node.
        """
        (cause, is_decided), is_stopped = self._decided, bool(self.context.inbox.stops)
        if not self.together or (is_stopped and not is_decided):
            return None
        if cause is not None:
            return JobFailure(cause.code or 1, str(cause))
        return self._agreement.failure or JobFailure(1, why)

    def judged(self, run: RunResult | None) -> RunResult | None:
        """The result of the run, with the failure of another node by which the job has failed here, too.

        A node that has vanished without an exit code is one. So a run that has succeeded waits, for no longer
        than an outage of the network may take, until it is known of each node that it is still there, or how
        it has ended.
        """
        if run is None or self.context.inbox.stops:
            return run
        with self._only_helping():
            self._take()
            while run.succeeded and self._channel is not None and not self.context.inbox.stops:
                if not self._channel.away - self._agreement.over.keys():
                    break
                time.sleep(_POLL_SECONDS)
                self._take()
        return run._replace(stopped_for=run.stopped_for or self._failure_elsewhere(run))

    def _failure_elsewhere(self, run: RunResult) -> JobFailure | None:
        """The failure of another node for which this one was stopped, or cannot have succeeded."""
        agreement, lost = self._agreement, sorted(self._agreement.lost)
        if not lost and (run.succeeded or not self.together):
            return None
        elsewhere, verdict = self._cause_elsewhere(lost), agreement.verdict
        if elsewhere is not None:
            return JobFailure(elsewhere.code or 1, str(elsewhere))
        return agreement.failure or (None if verdict is None else JobFailure(1, verdict.why))

    def _cause_elsewhere(self, lost: Sequence[int] = ()) -> Cause | None:
        """The first failure that is not of this node, as it is known here."""
        return cause_of((failure for failure in self._of_others() if failure.node != self.node), lost)

    def _of_others(self) -> list[Cause]:
        """The failures that other nodes have told."""
        return [failure for node in self._failed_nodes for failure in self._failures[self.attempt, node]]

    @property
    def _failed_nodes(self) -> list[int]:
        """The other nodes that have told failures of this attempt."""
        return [node for attempt, node in self._failures if attempt == self.attempt]

    def cause(self, ending: Ending) -> tuple[Cause | None, bool]:
        """The cause of the job's end, and whether the nodes have agreed on it: else it is this node's.

        After this node has told what it knows, it waits for the others for at most a second. Recorded as an
        event.
        """
        status, agreed = exit_status(ending), False
        own = self._own_causes.of_end(ending, status)
        cause = cause_of(own) or self._own_causes.hang_of(ending.run)
        if status.by == "signal" and (ending.run is None or ending.run.first_failure is None):
            cause = None
        with self._only_helping():
            if self.talks:
                cause, agreed = self._agreed(status, own, ending), True
        if cause is None or not status.code:
            return None, False
        self.context.journal.event("job cause", cause=cause.fields())
        return cause, agreed

    def _agreed(self, status: ExitStatus, own: list[Cause], ending: Ending) -> Cause | None:
        """The cause by what all nodes tell.

        One that has failed by itself waits for what fails elsewhere at the same time, so that all name the
        same; one of which no rank has failed, or ranks have lost others, waits longer.
        """
        hung = self._own_causes.hang_of(ending.run) is not None
        began, first = time.monotonic(), self._first(own, ending.run)
        if self.node:
            self.tell("left", {"code": status.code})
        patience = (CAUSE_SECONDS if own or hung else STOPPED_SECONDS) if status.code else 0.0
        while True:
            certain = first is not None and first.evidence == OWN
            left = began + (min(patience, TOGETHER_SECONDS) if certain else patience) - time.monotonic()
            awaited = set(self.others) - set(() if self.node else self._failed_nodes)
            if left <= 0 or (certain and not awaited) or self._agreement.verdict is not None:
                break
            time.sleep(min(left, _POLL_SECONDS))
            first = self._first(own, ending.run)
        if not self.node:
            self.tell("left", {"code": status.code})
        if self._channel is not None:  # it may have been given up meanwhile
            unsent = began + CAUSE_SECONDS - time.monotonic() if own else 0.0  # a later start is tried again
            self._channel.flush(max(_FLUSH_SECONDS, unsent))
            if not status.code:  # a node whose success is not known to the others counts as lost
                self._channel.settle()
        return first

    def _first(self, own: list[Cause], run: RunResult | None) -> Cause | None:
        """The cause by now, with what failed here, which is told; without any failure, the hang.

        Node 0 tells the others the cause by all failures, which counts unless theirs is of better evidence.
        """
        self._take()
        if self.node:
            self._tell("failed", own)
            first, mine = next(iter(self._failures.get((self.attempt, 0), [])), None), cause_of(own)
            if first is not None and (mine is None or first.evidence <= mine.evidence):
                return first
        theirs = self._of_others()
        silent = set(self.unreached) - self._agreement.over.keys() - self._left.keys()
        lost = sorted((silent - set(self._failed_nodes)) | self._agreement.lost)
        suspect = run.suspect if run is not None else None
        failures = [f for f in (*own, *theirs) if (f.code, f.rank) != (ExitCode.HUNG, None)]  # no mere hangs
        hung = (run is not None and run.hung) or ExitCode.HUNG in self._left.values()
        if suspect is not None and not failures and (hung or own or theirs):
            first = self._own_causes.hang(suspect)
        else:
            first = cause_of(failures or [*own, *theirs], lost)
        if not self.node and first is not None:
            self._tell("cause", [first])
        return first
