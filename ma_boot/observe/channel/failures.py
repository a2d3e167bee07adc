"""Which failure of a job was the first one, of all nodes: by what failed, then by when. Pure.

A rank that lost its peer may end long before the one that it lost: then the other's exception is the cause,
though it comes later.
"""

from __future__ import annotations

import math
import re
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Sequence

from ma_boot.redact import without_secrets
from ma_boot.reporting import WorkerExit, last_exception, output_of_failed_rank, own_words

MOST_FAILURES = 16  # of a node
MOST_LINES_AFTER = 15  # after the exception of a rank that has not ended by itself
LONGEST_WORDS = 300
OWN, RAISED, LOST_PEER = 0, 1, 2  # failed by itself; was stopped, but had raised before; lost another one
# What a rank prints that lost another one: of sockets, torch.distributed, Gloo, NCCL, HCCL, MindSpore, MPI.
_LOST_PEER = (
    r"(?i)connection (was )?(closed|reset|refused|aborted)|broken pipe|ConnectionResetError|BrokenPipeError"
    r"|ConnectionRefusedError|Dist(Network|Store|Backend)Error|remote (process|worker|rank|peer)"
    r"|EI000[26]|EI0013|heartbeat|watchdog|socket times? ?out|HCCL.{0,40}time ?out|UpdateTopoState"
    r"|gloo.{0,80}(time|clos|reset)|NCCL.{0,60}(error|time ?out|abort)|peer (is|has)|lost (its|a) peer"
    r"|scheduler.{0,40}(disconnect|lost|time)"
)
_STOPPED = r"KeyboardInterrupt|SystemExit"


class JobFailure(NamedTuple):
    """A failure on node `node`; `rank` is None if no rank failed, but ma_boot on that node.

    `words` are the exception's own, or how the process ended; `when` is on this node's monotonic clock, in
    seconds; `evidence` is one of the numbers above, the lowest for the best.
    """

    node: int
    rank: Optional[int]
    code: int
    words: str
    when: float
    evidence: int = OWN

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"node {self.node}{rank}: {self.words}"


def failures_of(ends: Sequence[WorkerExit], node: int) -> List[JobFailure]:
    """The failures of a node's processes, the likeliest cause first."""
    found = [_failure(ended, node) for ended in ends if ended.code]
    return sorted((one for one in found if one is not None), key=_order)[:MOST_FAILURES]


def _failure(ended: WorkerExit, node: int) -> Optional[JobFailure]:
    output = output_of_failed_rank(ended.output)
    exception = last_exception(output)
    if exception is not None and re.match(_STOPPED, exception):
        exception = None
    if ended.stopped and (exception is None or not _is_at_the_end(exception, output)):
        return None
    text = exception if exception is not None else output[-4000:]
    lost = ended.oom is None and re.search(_LOST_PEER, text) is not None
    evidence = LOST_PEER if lost else RAISED if ended.stopped else OWN
    how = ended.how() if ended.rank is not None else f"{ended.label} {ended.how()}"
    out_of_memory = (
        f"out of memory: {ended.oom}" if ended.oom is not None else None
    )  # its output knows nothing
    words = without_secrets(out_of_memory or exception or own_words(output) or how)
    return JobFailure(node, ended.rank, ended.code, readable(words), ended.ended_ns / 1e9, evidence)


def _is_at_the_end(exception: str, output: str) -> bool:
    """Whether little was printed after it: an exception that was handled is no failure."""
    return output[output.rfind(exception) :].count("\n") <= MOST_LINES_AFTER


def first_failure_of(failures: Iterable[JobFailure], lost: Sequence[int] = ()) -> Optional[JobFailure]:
    """The cause of the job's end; `lost` are nodes that do not answer and have not said that they end.

    If there is no failure, or all are those of ranks that lost another one, a lost node is the cause.
    """
    first = min(failures, key=_order, default=None)
    if first is None and lost:
        return JobFailure(min(lost), None, 1, "the node does not answer any more", 0.0, LOST_PEER)
    if first is not None and first.evidence == LOST_PEER and lost:
        words = f"the node does not answer, and others lost it ({first})"
        return JobFailure(min(lost), None, first.code, words, first.when, LOST_PEER)
    return first


def _order(one: JobFailure) -> tuple[float, ...]:
    return (one.evidence, one.when, one.node, -1 if one.rank is None else one.rank)


def told(failures: Sequence[JobFailure], now: float) -> Mapping[str, Any]:
    """The failures as a message to other nodes, without a clock."""
    rows = []
    for one in failures:
        ago = round(max(0.0, now - one.when), 3)
        fields = {"rank": one.rank, "code": one.code, "words": one.words, "evidence": one.evidence}
        rows.append({**fields, "ago": ago})
    return {"failures": rows}


def told_by(node: int, body: Mapping[str, Any], when: float, own: Sequence[int]) -> List[JobFailure]:
    """The failures that another node tells at `when`; none if they are not as `told` writes them.

    None either if they are about a rank of this node (`own`).
    """
    rows = body.get("failures")
    found: List[JobFailure] = []
    try:
        for row in rows[:MOST_FAILURES] if isinstance(rows, list) else []:
            rank, ago, evidence = row["rank"], float(row["ago"]), int(row["evidence"])
            if not (rank is None or (isinstance(rank, int) and rank >= 0 and rank not in own)):
                return []
            if not 0 <= ago < math.inf or evidence not in (OWN, RAISED, LOST_PEER):
                return []
            words = readable(str(row["words"]))
            found.append(JobFailure(node, rank, int(row["code"]), words, when - ago, evidence))
    except (KeyError, TypeError, ValueError, OverflowError):
        return []
    return found


def readable(text: str) -> str:
    """One line of text without control characters, not too long."""
    line = next(iter(text.strip().splitlines()), "")
    return "".join(letter if letter.isprintable() else " " for letter in line)[:LONGEST_WORDS]
