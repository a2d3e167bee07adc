"""Root cause of a job: the first failure with the best evidence, over all nodes. Pure.

A rank that lost a peer may end long before the exception of that peer. So evidence comes before time: an
exception of a rank's own wins against a lost connection. Moments are those of the clock of the node that
failed, so all nodes put the same failures into the same order.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ma_boot.redact import without_secrets
from ma_boot.report.explain import (
    KILLED,
    last_line,
    out_of_memory,
    output_of_failed_rank,
)
from ma_boot.report.failure import FoundFailure, find_failure, own_words
from ma_boot.report.hints import first_hint
from ma_boot.report.result import STOP_CODES, WorkerExit, node_and_rank
from ma_boot.wording import Message
from path_mapping.errors import printable

# Failures of a node that are reported; the event of the end has all processes.
MOST_FAILURES = 16
# Characters of the words, of those before a line of a plog, and of the whole message.
LONGEST_WORDS = 300
LONGEST_BEFORE_PLOG = 140
LONGEST_TEXT = 2000
# Evidence, the best one first: the rank failed by itself; it raised, and was stopped before it ended; it
# ended with 0 before others lost it; it failed because it lost a peer.
OWN, RAISED, ENDED_EARLY, LOST_PEER = 0, 1, 2, 3
# Output of a rank that lost a peer: of sockets, torch.distributed, Gloo, NCCL, HCCL, MindSpore and MPI.
_LOST_PEER = (
    r"(?i)connection (was )?(closed|reset|refused|aborted)|broken pipe|ConnectionResetError|BrokenPipeError"
    r"|ConnectionRefusedError|Dist(Network|Store|Backend)Error|remote (process|worker|rank|peer)"
    r"|EI000[26]|EI0013|heartbeat|watchdog|socket times? ?out|HCCL.{0,40}time ?out|UpdateTopoState"
    r"|gloo.{0,80}(time|clos|reset)|NCCL.{0,60}(error|time ?out|abort)|peer (is|has)|lost (its|a) peer"
    r"|failed to pass monitoredBarrier"
    r"|scheduler.{0,40}(disconnect|lost|time)"
)
# HCCL has its code below the exception, in the message of several lines.
_LOST_PEER_BY_HCCL = r"\bEI000[26]\b|\bEI0013\b"
# Errors of HCCL and NCCL whose reason is this rank itself, though their words name the others.
_OF_THIS_RANK = r"\bEI00(?:0[13457]|11|14|17)\b|ncclInvalid(?:Usage|Argument)\b|ncclUnhandledCudaError\b"
_STOPPED = r"KeyboardInterrupt|SystemExit"
# Beginnings of the words of a failure without an exception: they follow the rank without a colon.
_ENDS = ("was killed by ", "ended with ")
# Signals before which no Python traceback explains the end.
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGKILL)


class Cause(NamedTuple):
    """A failure on node `node`; `rank` is None for a failure of ma_boot itself on that node.

    `words` are the exception's own, or how the process ended; `at` is the moment in seconds since 1970 by the
    node's clock; `evidence` is one of the numbers above, the lowest for the best; `place` is the `file:line`
    of the training's own frame, `hint` what to do, and `text` the whole message of the exception, for the
    rules of restarts, if it is more than the words: all three are empty if not known.
    """

    node: int
    rank: int | None
    code: int
    words: str
    at: float
    evidence: int = OWN
    place: str = ""
    hint: str = ""
    text: str = ""

    def __str__(self) -> str:
        template = "{} {}" if self.words.startswith(_ENDS) else "{}: {}"
        return Message.of(template, node_and_rank(self.node, self.rank), self.in_words)

    @property
    def in_words(self) -> str:
        """The failure, its place, and its remedy in one line."""
        return self.with_place_and_hint(self.words)

    def with_place_and_hint(self, words: str) -> str:
        """Appends the place and the remedy, as far as they are known."""
        words = Message.of("{}, at {}", words, self.place) if self.place else words
        return Message.of("{}. What to do: {}", words, self.hint) if self.hint else words

    def fields(self) -> dict[str, Any]:
        """Returns the fields for the event and the failure file, without empty ones."""
        return {name: value for name, value in self._asdict().items() if value != ""}


def causes_of(ends: Sequence[WorkerExit], node: int, epoch: float) -> list[Cause]:
    """Returns the failures of a node's processes, the most likely root cause first.

    `epoch`: offset from this node's monotonic clock to Unix time, in seconds.
    """
    failures = list(filter(None, (_failure(ended, node, epoch) for ended in ends if ended.code)))
    if any(ended.code or ended.stopped for ended in ends):
        early = (ended for ended in ends if ended.rank is not None and not ended.code and not ended.stopped)
        failures += [_early(ended, node, epoch) for ended in early]
    return sorted(failures, key=order)[:MOST_FAILURES]


def _failure(ended: WorkerExit, node: int, epoch: float) -> Cause | None:
    output = output_of_failed_rank(ended.output)
    failure = find_failure(output, ended.stopped, ended.signal in _FAULTS)
    if ended.stopped and (failure is None or re.match(_STOPPED, failure.words)):
        return None
    how = ended.how() if ended.rank is not None else Message.of("{} {}", ended.label, ended.how())
    words = out_of_memory(ended.oom) if ended.oom is not None else words_of(ended) or how
    plog = plog_of(ended)
    coded = "\n".join(coded_lines_of(plog))
    lost = ended.oom is None and _has_lost_peer(failure, output, coded)
    # SIGKILL and the kernel come from outside: what the process printed before explains nothing.
    known = failure if ended.oom is None and ended.signal != signal.SIGKILL else None
    shown, text = readable(words), readable_text(known.text, coded) if known is not None else coded
    # A rank that had raised would have ended with 1: 143 is only our SIGTERM, which came before its end.
    code = 1 if ended.stopped and ended.code in STOP_CODES else ended.code
    return Cause(
        node=node,
        rank=ended.rank,
        code=code,
        words=shown,
        at=_moment(ended, epoch),
        evidence=LOST_PEER if lost else RAISED if ended.stopped else OWN,
        place=readable(known.place) if known is not None else "",
        hint=first_hint(output if known is not None else "", plog) if not lost else "",
        text=text if text != shown else "",
    )


def lost_its_peer(ended: WorkerExit) -> bool:
    """Returns whether a process failed only because it lost a peer."""
    failure = _failure(ended, 0, 0.0) if ended.code else None
    return failure is not None and failure.evidence == LOST_PEER


def _has_lost_peer(failure: FoundFailure | None, output: str, coded: str) -> bool:
    if re.search(_LOST_PEER_BY_HCCL, coded):
        return True
    if failure is None or not failure.is_exception:
        return re.search(_LOST_PEER, output[-4000:]) is not None
    if re.search(_OF_THIS_RANK, failure.text):
        return False
    found = re.search(_LOST_PEER, failure.words) or re.search(_LOST_PEER_BY_HCCL, failure.text)
    return found is not None


def words_of(ended: WorkerExit) -> str:
    """Returns a process's own account of its failure, without secrets; empty if there is none.

    The first line of CANN's log with a code follows it, if the account has no code itself.
    """
    words, coded = _own_account(ended), coded_lines_of(plog_of(ended))
    if not coded:
        return words
    from ma_boot.report.plog import has_code

    if has_code(words):
        return words
    if not words:
        return Message.of("in CANN's log: {}", coded[0])
    # A `Message` is short, and would lose its Chinese line.
    before = words if isinstance(words, Message) else words[:LONGEST_BEFORE_PLOG]
    return Message.of("{}; in CANN's log: {}", before, coded[0])


def _own_account(ended: WorkerExit) -> str:
    """Returns the account of the output alone.

    SIGKILL comes from outside, so the output before it does not explain it; nor does a Python traceback
    explain a segmentation fault. With exit code 1 and no error in the output, the last line counts, as
    `sys.exit("text")` prints it.
    """
    if ended.code in KILLED:
        return ""
    output = output_of_failed_rank(ended.output)
    words = own_words(output, ended.stopped, ended.signal in _FAULTS)
    if words is None and ended.code == 1 and last_line(output):
        last = printable(without_secrets(last_line(output)))[:LONGEST_WORDS]
        return Message.of("{}; its last line: {}", ended.how(), last)
    return printable(without_secrets(words or ""))[:LONGEST_WORDS]


def plog_of(ended: WorkerExit) -> str:
    """Returns the errors in CANN's log of a process, if they may explain its failure; else an empty text.

    They explain neither SIGKILL, nor Python's own exceptions, nor the stop of a rank that had not failed.
    """
    if not ended.plog or ended.oom is not None or ended.code in KILLED or not ended.code:
        return ""
    from ma_boot.report.plog import may_explain

    output = output_of_failed_rank(ended.output)
    failure = find_failure(output, ended.stopped, ended.signal in _FAULTS)
    if failure is None:
        return "" if ended.stopped else ended.plog
    is_stop = ended.stopped and re.match(_STOPPED, failure.words)
    return ended.plog if not is_stop and may_explain(failure.words, failure.text) else ""


def coded_lines_of(plog: str) -> list[str]:
    """Returns the lines of a plog with a code; most jobs have no plog, and do not import its reader."""
    if not plog:
        return []
    from ma_boot.report.plog import coded_lines

    return coded_lines(plog)


def _early(ended: WorkerExit, node: int, epoch: float) -> Cause:
    seconds = f"{ended.seconds:.1f}"
    words = Message.of("ended with exit code 0 after {} s, while other ranks needed it", seconds)
    return Cause(
        node=node,
        rank=ended.rank,
        code=0,
        words=words,
        at=_moment(ended, epoch),
        evidence=ENDED_EARLY,
    )


def _moment(ended: WorkerExit, epoch: float) -> float:
    return round(ended.ended_ns / 1e9 + epoch, 3)


def cause_of(failures: Iterable[Cause], lost: Sequence[int] = ()) -> Cause | None:
    """Returns the root cause of the job; `lost` are unreachable nodes that have reported no end.

    A rank that ended early is the cause only of ranks that lost a peer. If there is no failure, or only
    failures of ranks that lost a peer, a lost node is the cause.
    """
    failures = list(failures)
    first = min((failure for failure in failures if failure.evidence != ENDED_EARLY), key=order, default=None)
    if first is not None and first.evidence == LOST_PEER:
        early = [failure for failure in failures if failure.evidence == ENDED_EARLY and failure.at < first.at]
        if early:
            return min(early, key=order)
        if lost:
            words = Message.of("the node does not answer, and others lost it ({})", first)
            return _lost_node(min(lost), words, first.code, at=first.at)
    if first is None and lost:
        words = Message.of("the node does not answer any more")
        return _lost_node(min(lost), words, 1, at=0.0)
    return first


def _lost_node(node: int, words: str, code: int, at: float) -> Cause:
    return Cause(node=node, rank=None, code=code, words=words, at=at, evidence=LOST_PEER)


def order(failure: Cause) -> tuple[float, ...]:
    """Sort key of failures, the most likely root cause first: evidence, then time, node and rank."""
    return (failure.evidence, failure.at, failure.node, -1 if failure.rank is None else failure.rank)


def readable(text: str) -> str:
    """Cuts a text to one line without control characters; a `Message` stays one."""
    if isinstance(text, Message):
        return Message(text.template, tuple(map(readable, text.args)))
    return printable(next(iter(text.strip().splitlines()), ""))[:LONGEST_WORDS]


def readable_text(text: str, coded: str = "") -> str:
    """Masks the secrets of a text, and cuts it to its first lines without control characters.

    The lines `coded` of a plog are appended; they are never cut.
    """
    lines = "\n".join(map(printable, without_secrets(text).splitlines()))
    return "\n".join(filter(None, [lines[: LONGEST_TEXT - len(coded)], coded]))
