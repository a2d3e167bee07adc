"""Who waits for whom, as HCCL says it when a wait takes too long. Pure.

EI0002, of a collective's notify, names the rank: `... not received the Notify record from remote rank [3]`,
in newer versions with a colon. EI0006, of a connection, has a table (LINK_ERROR_INFO) with rows that have the
other side first: `| 192.0.2.199(3) | 16666 | 192.0.3.198(1) | 0 | client | time out |`.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Mapping, Sequence, Set, Tuple

_NOTIFY = r"Notify record from remote rank:? ?\[(\d{1,9})\]"
_ADDRESS = r"\|\s*[0-9a-fA-F.:%\w]+\((\d{1,9})\)\s*"
_LINK = rf"{_ADDRESS}\|\s*\d+\s*{_ADDRESS}\|[^|]*\|[^|]*\|\s*(?:time ?out|connecting|init|fail)"
MOST_WAITS = 64


def waited_for(output: str, rank: int) -> Tuple[int, ...]:
    """The ranks that this rank waits for, by what it has printed."""
    found = [int(number) for number in re.findall(_NOTIFY, output)]
    for other, own in re.findall(_LINK, output):
        found += [int(other)] if int(own) == rank else []
    return tuple(dict.fromkeys(one for one in found if one != rank))[:MOST_WAITS]


def roots(waits: Mapping[int, Sequence[int]]) -> List[Tuple[int, List[int]]]:
    """The ranks that are waited for and wait for nobody, each with those that wait for it in the end, most of
    them first."""
    wanted = {other for others in waits.values() for other in others}
    ends = [rank for rank in wanted if not waits.get(rank)]
    behind = [(rank, sorted(_behind(rank, waits))) for rank in ends]
    return sorted(behind, key=lambda one: (-len(one[1]), one[0]))


def _behind(rank: int, waits: Mapping[int, Sequence[int]]) -> Set[int]:
    found: Set[int] = set()
    new = {rank}
    while new:
        new = {one for one, others in waits.items() if new.intersection(others)} - found - {rank}
        found |= new
    return found


def circle(waits: Mapping[int, Sequence[int]]) -> List[int]:
    """The smallest circle of ranks that wait for each other; empty if there is none."""
    smallest: List[int] = []
    for start in sorted(waits):
        path = _path(start, start, waits)
        if path and (not smallest or len(path) < len(smallest)):
            smallest = path
    return smallest


def _path(start: int, goal: int, waits: Mapping[int, Sequence[int]]) -> List[int]:
    """The shortest way from a rank back to `goal`."""
    came: Dict[int, int] = {}
    layer = [start]
    while layer:
        following: List[int] = []
        for rank in layer:
            for other in waits.get(rank, ()):
                if other == goal:
                    return _back(rank, start, came)
                if other not in came and other != start:
                    came[other] = rank
                    following.append(other)
        layer = following
    return []


def _back(rank: int, start: int, came: Mapping[int, int]) -> List[int]:
    path = [rank]
    while path[-1] != start:
        path.append(came[path[-1]])
    return path[::-1]


def waits_text(waits: Mapping[int, Iterable[int]]) -> List[str]:
    """The graph as lines, `rank 1 waits for 0`."""
    return [
        f"rank {rank} waits for {', '.join(map(str, others))}"
        for rank, others in sorted((rank, list(others)) for rank, others in waits.items())
        if others
    ]
