"""What a page shows of a job, as frozen values; times in seconds after the first event. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, Optional, Tuple

CAUSE = "cause"
FOLLOWED = "followed"
STOPPED = "stopped"
WELL = "well"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Phase:
    """A phase of a node; `end` is None for one whose end was not written. `outcome` is empty then."""

    name: str
    start: float
    end: Optional[float]
    outcome: str
    detail: str


@dataclass(frozen=True)
class Life:
    """One process: its start, its first output and its end, each of the last two None where unknown.

    `code` is as a shell shows it; `stopped` that ma_boot had begun to stop everything; `part` one of `CAUSE`,
    `FOLLOWED`, `STOPPED`, `WELL` and `UNKNOWN`.
    """

    label: str
    rank: Optional[int]
    start: float
    first: Optional[float]
    end: Optional[float]
    code: Optional[int]
    signal: Optional[int]
    stopped: bool
    oom: str
    log_file: str
    part: str = UNKNOWN

    @property
    def failed(self) -> bool:
        """It ended with an error, by itself."""
        return self.code not in (None, 0) and not self.stopped


@dataclass(frozen=True)
class Mark:
    """Something that happened: `kind` is the event's, `label` whom it met, `text` what it says."""

    kind: str
    at: float
    node: Optional[int]
    label: str
    text: str


@dataclass(frozen=True)
class Transfer:
    """Files on their way; `samples` are moments with the bytes so far; `end` is None where it is unknown;
    `retries` are the requests that were made again."""

    direction: str
    start: float
    end: Optional[float]
    files: int
    bytes: int
    samples: Tuple[Tuple[float, int], ...]
    retries: int = 0


@dataclass(frozen=True)
class Start:
    """One start of the boot command on a node; `exit_code` is None where no end was written.

    `by` says whose the exit code is: `signal`, `ma_boot`, `training`, `output`, or nothing; of a whole
    rehearsal also `node`, for a node of this label that ended without a word, whose `life` has its log.
    """

    begin: float
    end: float
    host: str
    phases: Tuple[Phase, ...]
    lives: Tuple[Life, ...]
    marks: Tuple[Mark, ...]
    transfers: Tuple[Transfer, ...]
    exit_code: Optional[int]
    by: str
    cause: str
    label: str
    signal: Optional[int]


@dataclass(frozen=True)
class Node:
    """A node with the starts that are drawn, in order; `earlier` were too long before them."""

    number: int
    starts: Tuple[Start, ...]
    earlier: int = 0


@dataclass(frozen=True)
class Verdict:
    """How the job ended: the node and the process that it is due to, where there are such."""

    exit_code: Optional[int]
    by: str
    cause: str
    node: Optional[int] = None
    life: Optional[Life] = None
    signal: Optional[int] = None
    label: str = ""


@dataclass(frozen=True)
class Timeline:
    """All of a job; `began` is the wall time of its first event, `seconds` how long it took."""

    job: str
    began: float
    seconds: float
    expected_nodes: Optional[int]
    nodes: Tuple[Node, ...]
    marks: Tuple[Mark, ...]
    verdict: Verdict
    unreadable: int = 0

    def lives(self) -> Iterator[Tuple[int, Life]]:
        """The processes of each node's last start, with the node; of each the last attempt."""
        for node in self.nodes:
            last = {life.label: life for start in node.starts[-1:] for life in start.lives}
            yield from ((node.number, life) for life in last.values())

    def all_marks(self) -> Tuple[Mark, ...]:
        """What happened, on all nodes, in order."""
        found = [mark for node in self.nodes for start in node.starts for mark in start.marks]
        return tuple(sorted([*self.marks, *found], key=lambda mark: mark.at))
