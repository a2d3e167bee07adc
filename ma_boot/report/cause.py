"""The cause of a job's end, of all nodes: by what failed, then by when. Pure.

A rank that lost its peer may end long before the one that it lost: then the other's exception is the cause,
though it comes later. Moments are those of the clock of the node that failed, so all nodes put the same
failures into the same order.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ma_boot.redact import without_secrets
from ma_boot.report.explain import (
    KILLED,
    error_line,
    exception_at_end,
    last_line,
    last_words,
    out_of_memory,
    output_of_failed_rank,
    own_words,
    place_of_exception,
)
from ma_boot.report.hints import first_hint
from ma_boot.report.result import STOP_CODES, WorkerExit, node_and_rank
from ma_boot.wording import Message
from path_mapping.errors import printable

MOST_FAILURES = 16  # of a node
LONGEST_WORDS = 300
# Failed by itself; was stopped, but had raised before; ended with 0 before others lost it; lost another one.
OWN, RAISED, ENDED_EARLY, LOST_PEER = 0, 1, 2, 3
# What a rank prints that lost another one: of sockets, torch.distributed, Gloo, NCCL, HCCL, MindSpore, MPI.
_LOST_PEER = (
    r"(?i)connection (was )?(closed|reset|refused|aborted)|broken pipe|ConnectionResetError|BrokenPipeError"
    r"|ConnectionRefusedError|Dist(Network|Store|Backend)Error|remote (process|worker|rank|peer)"
    r"|EI000[26]|EI0013|heartbeat|watchdog|socket times? ?out|HCCL.{0,40}time ?out|UpdateTopoState"
    r"|gloo.{0,80}(time|clos|reset)|NCCL.{0,60}(error|time ?out|abort)|peer (is|has)|lost (its|a) peer"
    r"|failed to pass monitoredBarrier"
    r"|scheduler.{0,40}(disconnect|lost|time)"
)
_LOST_PEER_BY_HCCL = r"\bEI000[26]\b|\bEI0013\b"  # below the exception, in its message
_STOPPED = r"KeyboardInterrupt|SystemExit"
_ENDS = ("was killed by ", "ended with ")  # how a process ended, where it has no words of its own
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGKILL)


class Cause(NamedTuple):
    """A failure on node `node`; `rank` is None if no rank failed, but ma_boot on that node.

    `words` are the exception's own, or how the process ended; `at` is the moment in seconds since 1970 by the
    node's clock; `evidence` is one of the numbers above, the lowest for the best; `place` is the `file:line`
    of the training's own frame, and `hint` what to do, both empty if not known.
    """

    node: int
    rank: int | None
    code: int
    words: str
    at: float
    evidence: int = OWN
    place: str = ""
    hint: str = ""

    def __str__(self) -> str:
        template = "{} {}" if self.words.startswith(_ENDS) else "{}: {}"
        return Message.of(template, node_and_rank(self.node, self.rank), self.in_words)

    @property
    def in_words(self) -> str:
        """Its words, where it is, and what to do, in one line."""
        words = Message.of("{}, at {}", self.words, self.place) if self.place else self.words
        return Message.of("{}. What to do: {}", words, self.hint) if self.hint else words

    def fields(self) -> dict[str, Any]:
        """What the event and the failure file have."""
        return {name: value for name, value in self._asdict().items() if value != ""}


def causes_of(ends: Sequence[WorkerExit], node: int, epoch: float) -> list[Cause]:
    """The failures of a node's processes, the likeliest cause first.

    `epoch` is what the node's monotonic clock lacks of the seconds since 1970.
    """
    failures = list(filter(None, (_failure(ended, node, epoch) for ended in ends if ended.code)))
    if any(ended.code or ended.stopped for ended in ends):
        early = (ended for ended in ends if ended.rank is not None and not ended.code and not ended.stopped)
        failures += [_early(ended, node, epoch) for ended in early]
    return sorted(failures, key=order)[:MOST_FAILURES]


def _failure(ended: WorkerExit, node: int, epoch: float) -> Cause | None:
    output = output_of_failed_rank(ended.output)
    exception = None if ended.signal in _FAULTS else exception_at_end(output, ended.stopped)
    if ended.stopped and (exception is None or re.match(_STOPPED, exception)):
        return None
    how = ended.how() if ended.rank is not None else Message.of("{} {}", ended.label, ended.how())
    words = out_of_memory(ended.oom) if ended.oom is not None else words_of(ended) or how
    lost = ended.oom is None and _has_lost_peer(exception, output)
    known = exception is not None and ended.oom is None
    # A rank that had raised would have ended with 1: 143 is only our SIGTERM, which came before its end.
    code = 1 if ended.stopped and ended.code in STOP_CODES else ended.code
    return Cause(
        node,
        ended.rank,
        code,
        readable(words),
        _moment(ended, epoch),
        LOST_PEER if lost else RAISED if ended.stopped else OWN,
        place_of_exception(output) if known else "",
        first_hint(output) if known and not lost else "",
    )


def lost_its_peer(ended: WorkerExit) -> bool:
    """Returns whether a process failed only because it had lost another one."""
    failure = _failure(ended, 0, 0.0) if ended.code else None
    return failure is not None and failure.evidence == LOST_PEER


def _has_lost_peer(exception: str | None, output: str) -> bool:
    if exception is None:
        return re.search(_LOST_PEER, output[-4000:]) is not None
    message = "\n".join(last_words(output))
    return re.search(_LOST_PEER, exception) is not None or re.search(_LOST_PEER_BY_HCCL, message) is not None


def words_of(ended: WorkerExit) -> str:
    """What a process says of its failure in its own words, without secrets; empty if nothing is known.

    What a process printed before SIGKILL is not why it came, and before a fault of the processor no traceback
    is. With exit code 1 and no words of an error it is the last line, as `sys.exit("text")` prints it.
    """
    if ended.code in KILLED:
        return ""
    output = output_of_failed_rank(ended.output)
    words = error_line(output) if ended.signal in _FAULTS else own_words(output, ended.stopped)
    if words is None and ended.code == 1 and last_line(output):
        last = printable(without_secrets(last_line(output)))[:LONGEST_WORDS]
        return Message.of("{}; its last line: {}", ended.how(), last)
    return printable(without_secrets(words or ""))[:LONGEST_WORDS]


def _early(ended: WorkerExit, node: int, epoch: float) -> Cause:
    seconds = f"{ended.seconds:.1f}"
    words = Message.of("ended with exit code 0 after {} s, while other ranks needed it", seconds)
    return Cause(node, ended.rank, 0, words, _moment(ended, epoch), ENDED_EARLY)


def _moment(ended: WorkerExit, epoch: float) -> float:
    return round(ended.ended_ns / 1e9 + epoch, 3)


def cause_of(failures: Iterable[Cause], lost: Sequence[int] = ()) -> Cause | None:
    """The cause of the job's end; `lost` are nodes that do not answer and have not said that they end.

    A rank that ended early is the cause only of ranks that lost another one. If there is no failure, or all
    are those of ranks that lost another one, a lost node is the cause.
    """
    failures = list(failures)
    first = min((failure for failure in failures if failure.evidence != ENDED_EARLY), key=order, default=None)
    if first is not None and first.evidence == LOST_PEER:
        early = [failure for failure in failures if failure.evidence == ENDED_EARLY and failure.at < first.at]
        if early:
            return min(early, key=order)
        if lost:
            words = Message.of("the node does not answer, and others lost it ({})", first)
            return Cause(min(lost), None, first.code, words, first.at, LOST_PEER)
    if first is None and lost:
        words = Message.of("the node does not answer any more")
        return Cause(min(lost), None, 1, words, 0.0, LOST_PEER)
    return first


def order(failure: Cause) -> tuple[float, ...]:
    """The likeliest cause first: an exception before a lost peer, then by time, node and rank."""
    return (failure.evidence, failure.at, failure.node, -1 if failure.rank is None else failure.rank)


def readable(text: str) -> str:
    """One line of text without characters that control a terminal, not too long; a message stays one."""
    if isinstance(text, Message):
        return Message(text.template, tuple(map(readable, text.args)))
    return printable(next(iter(text.strip().splitlines()), ""))[:LONGEST_WORDS]
