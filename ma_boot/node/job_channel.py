"""The way to the job's other nodes, if the job has a token; and what all of them know of the job's cause."""

from __future__ import annotations

import math
import time
from collections import deque
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import (
    TYPE_CHECKING,
    Any,
    Collection,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from ma_boot.errors import ConfigError, ExitCode, described
from ma_boot.launch import Placement
from ma_boot.modelarts import JOB_TOKEN, JobEnvironment
from ma_boot.node.job_restart import AttemptEnd, RestartPolicy, Verdict
from ma_boot.node.restart_protocol import Agreement
from ma_boot.node.world import World
from ma_boot.observe import PeerMessage
from ma_boot.rank_table import RankTable, own_pod
from ma_boot.redact import masked
from ma_boot.reporting import (
    OWN,
    Cause,
    Ending,
    ExitStatus,
    HangSuspect,
    JobFailure,
    RunResult,
    cause_of,
    causes_of,
    exit_status,
    readable,
)
from ma_boot.supervisor import Worker
from ma_boot.wording import Message, coded, lines_of

if TYPE_CHECKING:
    from ma_boot.observe.channel import NodeChannel

CAUSE_SECONDS = 0.8  # that the end of a node whose ranks lost others waits for their words, at most
STOPPED_SECONDS = (
    0.5  # if nothing failed here: others tell their failures before the platform stops this node
)
TOGETHER_SECONDS = 0.3  # that a node which has failed waits for failures of others at the same time
MOST_UNREAD = 4096  # messages about hangs, and about saves
_OF_FAILURES = ("failed", "cause", "go")
_FLUSH_SECONDS = 0.15
_POLL_SECONDS = 0.02


class OtherNodes:
    """The other nodes of a job, as `Peers` and as an `Observer`.

    Without a token, or in a job of one node, there are none. Node 0 hears what failed on the others, and
    tells them the cause that follows from all of it.

    What goes wrong on the way to them is said, and ends that way, never the job. `world` is this process's
    world without the token, which is for nobody else.
    """

    without = "this node goes on without the others"

    def __init__(self, world: World) -> None:
        environ = dict(world.environ)
        self._token = environ.pop(JOB_TOKEN, "")
        self.world = world._replace(environ=environ)
        self.node = 0
        self._epoch = time.time() - time.monotonic()
        self._own: Sequence[int] = ()
        self._in_order = False  # each node has as many ranks as this one, in the order of the nodes
        self.nodes = 1
        self._channel: Optional[NodeChannel] = None
        self._failures: Dict[Tuple[int, int], List[Cause]] = {}  # by attempt and node
        self._left: Dict[int, object] = {}  # the exit codes of nodes that have said that they end
        self._told: List[Tuple[int, int, Optional[int], str]] = []
        self._of_hangs: Deque[PeerMessage] = deque(maxlen=MOST_UNREAD)
        self._of_saves: Deque[PeerMessage] = deque(maxlen=MOST_UNREAD)
        self._workers: Sequence[Worker] = ()
        self._has_failed = False  # a process of this node
        self.together = False  # a failure anywhere ends the attempt on all nodes, for a restart
        self._agreement = Agreement()

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
        self.world.journal.say(f"{self.without}: {reason}")
        if channel is not None:
            with suppress(Exception):
                channel.close()

    @property
    def talks(self) -> bool:
        """Whether there is a channel to the other nodes."""
        return self._channel is not None

    def restart_together(self, policy: RestartPolicy) -> None:
        """From here on a failure of any node ends the attempt on all."""
        self.together, self._agreement = True, Agreement(self.node, self.nodes, policy)

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
        if job.node_count < 2:
            return
        if not self._token:
            self.world.journal.say(
                f"{JOB_TOKEN} is not set: failures, hangs and losses of the other {job.node_count - 1} nodes "
                "are not detected here; set it to the same random text on all nodes, and to another one in "
                "each job, for example from `openssl rand -hex 16`"
            )
            return
        from ma_boot.observe.channel import (  # only for jobs that ask for it
            SHORTEST_TOKEN,
            Address,
            NodeChannel,
        )

        if len(self._token) < SHORTEST_TOKEN:
            raise ConfigError(
                f"{JOB_TOKEN} has {len(self._token)} characters: expected at least {SHORTEST_TOKEN}, the "
                "same on all nodes and in no other job, for example from `openssl rand -hex 16`"
            )
        own, name = Address(_own_address(job), port), job.place.job or ""
        with self._only_helping():
            self._channel = NodeChannel(self._token, name, self.node, job.node_count, own, self.world.inbox)
            if self._channel.problem:
                self.world.journal.say(
                    f"this node hears nothing of the others: {self._channel.problem} (MABOOT_CHANNEL_PORT)"
                )
            self._channel.tell("here", {})
            if len(job.place.hosts) == job.node_count:
                self._channel.meet(Address(job.place.hosts[0], port))

    def meet(self, placement: Placement, table: Optional[RankTable], job: JobEnvironment, port: int) -> None:
        """Knows the ranks of this node from now on, and the address of node 0 if only the table has it.

        A table with more nodes than the variables told of (HyperJob) closes the channel, which is of a part.
        """
        if job.node_count != self.nodes and self.talks:
            self._give_up(f"the rank table has {job.node_count} nodes, the variables told of {self.nodes}")
        self.node, self.nodes = job.node_rank, job.node_count
        self._own, each = placement.ranks, len(placement.ranks)
        first = self.node * each
        self._in_order = placement.world_size == job.node_count * each and [*self._own] == [
            *range(first, first + each)
        ]
        if self._channel is None or table is None or len(job.place.hosts) == job.node_count:
            return
        from ma_boot.observe.channel import Address

        with self._only_helping():
            pods = table.pods
            if len(pods) == job.node_count and pods.index(own_pod(table, job.identity)) == self.node:
                node_0 = pods[0]
                host = node_0.more.get("container_ip") or node_0.more.get("host_ip") or node_0.server_id
                self._channel.meet(Address(str(host), port))

    def has_rank(self, node: int, rank: int) -> bool:
        """Whether another node may speak of this rank as its own."""
        return rank // len(self._own) == node if self._in_order else rank >= 0 and rank not in self._own

    def tell(self, kind: str, body: Mapping[str, Any]) -> None:
        """Sends a message to node 0, or from there to all others, in the background; without secrets."""
        with self._only_helping():
            if self._channel is not None:
                self._channel.tell(kind, masked(coded(body)))

    def _tell(self, kind: str, failures: Sequence[Cause]) -> None:
        """Tells what was not told yet."""
        from ma_boot.observe.channel import failures_body

        known = [(self.attempt, failure.node, failure.rank, failure.words) for failure in failures]
        if known and known != self._told:
            self._told = known
            self.tell(kind, {"attempt": self.attempt, **failures_body(failures)})

    def patience(self) -> float:
        """Forever: a message wakes the inbox."""
        return math.inf

    def check(self, workers: Sequence[Worker], stopping: bool) -> str:
        """Tells the first failure of this node at once, and who has raised here after one of another node.

        Where the job restarts together, a failure of another node is why the ranks of this one are stopped.
        """
        if self.talks:
            with self._only_helping():
                self._check(workers)
        return self._why_stop() if self.together else ""

    def _why_stop(self) -> str:
        """Why the processes of this node have to end for a restart; empty if they have not."""
        elsewhere, agreement = self.stopped_for(), self._agreement
        if elsewhere is not None:
            return elsewhere.text
        if agreement.verdict is not None:
            return agreement.verdict.why
        return f"node {min(agreement.ends)} has stopped its processes" if agreement.ends else ""

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

    def heard(self) -> List[PeerMessage]:
        """The messages about hangs since the last call."""
        messages = list(self._of_hangs)
        self._of_hangs.clear()
        return messages

    def heard_of_saves(self) -> List[PeerMessage]:
        """The messages about checkpoints since the last call, which another thread may make."""
        return [self._of_saves.popleft() for _ in range(len(self._of_saves))]

    def _take(self) -> bool:
        """Takes what has come; whether another node has told a failure."""
        if self._channel is None:
            return False
        from ma_boot.observe.channel import read_failures

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
            elif message.kind == "save":
                self._of_saves.append(message)
            elif message.kind != "stopped":
                self._of_hangs.append(message)
        return another_failed

    def agreed(self, own: AttemptEnd, run: RunResult) -> Verdict:
        """What node 0 decides after an attempt, once all processes of all nodes are dead.

        Where that cannot be agreed, no node starts again. Raises `Stopped`.
        """
        failures = self._failures_of(run)
        self._first(failures, run)  # node 0 hears of a failure before it decides
        self._agreement = self._agreement.stopped(own, time.monotonic())
        if self.node:
            self._tell_agreement(None)
        while True:
            self.world.inbox.check()
            cause = self._first(failures, run)
            if self.talks:
                self._agreement = self._agreement.decided(cause, self.unreached, time.monotonic())
            else:
                self._agreement = self._agreement.ended("there is no way to the other nodes")
            if self._agreement.verdict is not None:
                break
            time.sleep(_POLL_SECONDS)
        verdict = self._agreement.verdict
        if not self.node:
            self._tell_agreement(cause)
        if verdict.again:
            self._agreement = self._agreement.again()
        return verdict

    def _tell_agreement(self, cause: Optional[Cause]) -> None:
        """Tells how far this node is, and with node 0's verdict the cause of it."""
        from ma_boot.observe.channel import failures_body

        if self._agreement.message is not None:
            kind, body = self._agreement.message
            self.tell(kind, {**body, **failures_body([cause] if cause is not None else [])})

    def _failures_of(self, run: RunResult) -> List[Cause]:
        """What has failed on this node in an attempt."""
        failures = causes_of(run.exits, self.node, self._epoch)
        if not failures and run.not_started is not None:
            words = readable(str(run.not_started))
            failures = [Cause(self.node, None, run.not_started.exit_code, words, self._now())]
        hang = self._own_hang(run)
        return [hang] if not failures and hang is not None and hang.node == self.node else failures

    def stopped_for(self) -> Optional[JobFailure]:
        """The failure of another node for which the ranks of this one were stopped."""
        elsewhere = cause_of(failure for failure in self._of_others() if failure.node != self.node)
        return None if elsewhere is None else JobFailure(elsewhere.code or 1, str(elsewhere))

    def _of_others(self) -> List[Cause]:
        """The failures that other nodes have told."""
        return [failure for node in self._failed_nodes for failure in self._failures[self.attempt, node]]

    @property
    def _failed_nodes(self) -> List[int]:
        """The other nodes that have told failures of this attempt."""
        return [node for attempt, node in self._failures if attempt == self.attempt]

    def cause(self, ending: Ending) -> Tuple[Optional[Cause], bool]:
        """The cause of the job's end, and whether the nodes have agreed on it: else it is this node's.

        After this node has told what it knows, it waits for the others for at most a second. Recorded as an
        event.
        """
        status, agreed = exit_status(ending), False
        own = self._own_causes(ending, status)
        cause = cause_of(own) or self._own_hang(ending.run)
        if status.by == "signal" and (ending.run is None or ending.run.first_failure is None):
            cause = None
        with self._only_helping():
            if self.talks:
                cause, agreed = self._agreed(status, own, ending), True
        if cause is None or not status.code:
            return None, False
        self.world.journal.event("job cause", cause=cause.fields())
        return cause, agreed

    def _own_causes(self, ending: Ending, status: ExitStatus) -> List[Cause]:
        """What has failed on this node."""
        run = ending.run
        own = causes_of(run.exits, self.node, self._epoch) if run is not None else []
        if run is not None and run.advice and run.first_failure is not None:
            first = run.first_failure.rank
            own = [cause._replace(hint=run.advice[0]) if cause.rank == first else cause for cause in own]
        hung = self._own_hang(run) is not None
        if status.by in ("ma_boot", "output") and not hung and not any(failure.code for failure in own):
            words = readable(lines_of(status.cause)[0])
            own = [Cause(self.node, None, status.code, words, self._now())]
        return own

    def _own_hang(self, run: Optional[RunResult]) -> Optional[Cause]:
        """The hang that has ended this node, if somebody is suspected."""
        return self._hang(run.suspect) if run is not None and run.hung and run.suspect is not None else None

    def _hang(self, suspect: HangSuspect) -> Cause:
        words = Message.of("it hung: {}", readable(suspect.in_words()))
        return Cause(suspect.node, suspect.rank, ExitCode.HUNG, words, self._now())

    def _now(self) -> float:
        return round(time.monotonic() + self._epoch, 3)

    def _agreed(self, status: ExitStatus, own: List[Cause], ending: Ending) -> Optional[Cause]:
        """The cause by what all nodes tell.

        One that has failed by itself waits for what fails elsewhere at the same time, so that all name the
        same; one of which no rank has failed, or ranks have lost others, waits longer.
        """
        hung = self._own_hang(ending.run) is not None
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
        return first

    def _first(self, own: List[Cause], run: Optional[RunResult]) -> Optional[Cause]:
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
        lost = sorted(set(self.unreached) - self._left.keys() - set(self._failed_nodes))
        suspect = run.suspect if run is not None else None
        hung = (run is not None and run.hung) or ExitCode.HUNG in self._left.values()
        if not own and not theirs and suspect is not None and hung:
            first = self._hang(suspect)
        else:
            first = cause_of([*own, *theirs], lost)
        if not self.node and first is not None:
            self._tell("cause", [first])
        return first


def _own_address(job: JobEnvironment) -> str:
    """This node's address if the variables have it as such, else all addresses: no name is looked up here."""
    known = len(job.place.hosts) == job.node_count
    for host in (job.place.hosts[job.node_rank],) if known else job.identity.addresses:
        try:
            return str(ip_address(host))
        except ValueError:
            continue
    return ""
