"""Rules for the numbers of script ranks over all nodes of a job. Pure.

Only ranks with a local number and a world size are compared: `RANK` and `WORLD_SIZE` alone are often numbers
of nodes. A rule applies to numbers that are unchanged for some time, because a script starts its ranks one
after the other, and a rank that is started again overlaps with its old process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ma_boot.errors import ConfigError
from ma_boot.node.scripts.script_state import ScriptRank
from ma_boot.wording import Message, ranks_text

# Seconds for which wrong numbers have to be unchanged while the ranks run.
STABLE_SECONDS = 20.0
# Seconds after which ranks of one node are late.
LATE_SECONDS = 60.0
# Seconds for which ranks have to run so that all of them are seen: more than the time between two looks.
SEEN_SECONDS = 0.9
# Numbers in a message between nodes.
MOST_RANKS = 4096

_EACH_ITS_OWN = (
    "each node trains a job of its own: the command has started {} with a world size of {}, but the job has "
    "{} nodes with {} ranks in all. Give the launcher the numbers of the job, for example --nnodes "
    "$MABOOT_NNODES --node_rank $MABOOT_NODE_RANK --master_addr $MABOOT_MASTER_ADDR (if each node is meant "
    "to train alone: MABOOT_SCRIPT_RANKS=report)"
)
_NUMBER_THEM = (
    "Start one rank per device on each node, on node k from k x {} on: $RANK_START, or $MABOOT_NODE_RANK x "
    "$MABOOT_NPROC"
)
_TWICE = "{} runs twice, on {}. {}"
_MISSING = "{} of {} ranks were not started, and the others wait for them: node {} has started {}. {}"

# A rank and the world size in its environment.
Numbered = tuple[int, int]


class NodeRanks(NamedTuple):
    """Script ranks of one node, with their world sizes.

    `running` has one entry for each process, without change since `since` (monotonic, seconds); `started` are
    all that have run so far, and `lasted` is the longest time for which some ran without change, in seconds.
    `ended` is true once the node's command has ended.
    """

    running: tuple[Numbered, ...] = ()
    started: frozenset[Numbered] = frozenset()
    since: float = 0.0
    ended: bool = False
    lasted: float = 0.0

    def with_running(self, ranks: Iterable[ScriptRank], now: float) -> NodeRanks:
        """After a look that has found these ranks."""
        running = tuple(sorted(filter(None, map(_numbered, ranks))))
        is_same = running == self.running
        lasted = max(self.lasted, now - self.since if is_same and running else 0.0)
        since = self.since if is_same else now
        return self._replace(running=running, started=self.started | set(running), since=since, lasted=lasted)

    def fields(self) -> dict[str, Any]:
        """The fields of a message to other nodes."""
        running, started = self.running[:MOST_RANKS], sorted(self.started)[:MOST_RANKS]
        return {"running": running, "started": started, "ended": self.ended, "lasted": self.lasted}

    @classmethod
    def decode(cls, body: Mapping[str, Any], when: float) -> NodeRanks | None:
        """Decodes the message of another node that arrived at `when`; None if it is malformed."""
        try:
            running, started = (
                tuple((int(rank), int(size)) for rank, size in body[name][:MOST_RANKS])
                for name in ("running", "started")
            )
            lasted = float(body["lasted"])
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return cls(running, frozenset(started), when, body.get("ended") is True, lasted)


def _numbered(rank: ScriptRank) -> Numbered | None:
    number = rank.number
    if number.local_rank is None or number.world_size is None:
        return None
    return number.rank, number.world_size


class JobShape(NamedTuple):
    """The job as ma_boot knows it: the ranks of all nodes, and those of one node."""

    world_size: int
    nodes: int
    each: int


def find_wrong_numbers(
    shape: JobShape, nodes: Mapping[int, NodeRanks], now: float, seconds: float = STABLE_SECONDS
) -> ConfigError | None:
    """Returns the error of a job whose script ranks have wrong numbers; None without one.

    `nodes` are those that have reported, by node. A rank can only be missing once all have.
    """
    if any(now - known.since < seconds and not known.ended for known in nodes.values()):
        return None
    alone = next((known for _, known in sorted(nodes.items()) if _trains_alone(shape, known)), None)
    if alone is not None:
        size = next(iter(alone.started))[1]
        ranks = ranks_text(rank for rank, _ in alone.started)
        return ConfigError(Message.of(_EACH_ITS_OWN, ranks, size, shape.nodes, shape.world_size))
    return _twice(shape, nodes) or _missing(shape, nodes)


def nodes_without_ranks(nodes: Mapping[int, NodeRanks], size: int) -> list[int]:
    """Returns the nodes that have started no rank, although others have run theirs for `LATE_SECONDS`.

    `size` is the number of nodes. It is no error: the node may still prepare its data.
    """
    if not any(known.running and known.lasted >= LATE_SECONDS for known in nodes.values()):
        return []
    return [node for node in range(size) if not nodes.get(node, NodeRanks()).started]


def _trains_alone(shape: JobShape, known: NodeRanks) -> bool:
    """Returns whether all ranks of a node are those of a job of this node alone.

    While the command runs, they have to use all devices: fewer may be a step before the training.
    """
    sizes = {size for _, size in known.started}
    size = min(sizes, default=0)
    is_own = size <= shape.each if known.ended else size == shape.each
    is_smaller = len(sizes) == 1 and size < shape.world_size and is_own
    return shape.nodes > 1 and is_smaller and len(known.started) == size


def _twice(shape: JobShape, nodes: Mapping[int, NodeRanks]) -> ConfigError | None:
    times = Counter(
        rank for known in nodes.values() for rank, size in known.running if size == shape.world_size
    )
    twice = [rank for rank, count in sorted(times.items()) if count > 1]
    if not twice:
        return None
    places = [node for node, known in sorted(nodes.items()) if (twice[0], shape.world_size) in known.running]
    where = Message.of("nodes {}" if len(places) > 1 else "node {}", ", ".join(map(str, places)))
    remedy = Message.of(_NUMBER_THEM, shape.each)
    return ConfigError(Message.of(_TWICE, ranks_text(twice[:1]), where, remedy))


def _missing(shape: JobShape, nodes: Mapping[int, NodeRanks]) -> ConfigError | None:
    """Returns the error of missing ranks: on a node that has started some, or whose command has ended.

    Ranks that end at once may be missed by the looks, so those that were seen have to have run for a while. A
    single rank of a command that still runs is no evidence: a step before the training may have its number.
    """
    of_job = {
        node: [rank for rank, size in known.started if size == shape.world_size]
        for node, known in nodes.items()
    }
    missing = set(range(shape.world_size)).difference(*of_job.values())
    if not missing or not any(of_job.values()) or len(nodes) < shape.nodes:
        return None
    lacking = [
        node
        for node, ranks in sorted(of_job.items())
        if len(ranks) < shape.each and _is_started(nodes[node], len(ranks))
    ]
    is_seen = any(nodes[node].lasted >= SEEN_SECONDS for node, ranks in of_job.items() if ranks)
    if not lacking or not is_seen:
        return None
    node, ranks = lacking[0], of_job[lacking[0]]
    started = ranks_text(ranks) if ranks else Message("no rank")
    gaps = (ranks_text(missing), shape.world_size, node, started, Message.of(_NUMBER_THEM, shape.each))
    return ConfigError(Message.of(_MISSING, *gaps))


def _is_started(known: NodeRanks, count: int) -> bool:
    """Returns whether a node with `count` ranks of the job starts no more."""
    if known.ended:
        return count == 0 or known.lasted >= SEEN_SECONDS
    return count > 1 and known.lasted >= SEEN_SECONDS
