"""Which files of a route are meant, and which of them are this node's: patterns and shards. Pure."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple

FILE_COST = 64 << 10  # bytes: what a request costs, so that empty files are shared out too


@dataclass(frozen=True)
class Shard:
    """This node's number, from 0, among the nodes that share the work."""

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count:
            raise ValueError(f"found part {self.index} of {self.count}, expected 0 to {self.count - 1}")


def selected(include: Sequence[str], exclude: Sequence[str]) -> Optional[Callable[[str], bool]]:
    """Whether a name below the route is meant; a directory's name ends in `/`. None where all are.

    The patterns are those of a .gitignore, the last that matches decides.
    """
    if not include and not exclude:
        return None
    import pathspec  # slow to import, and few routes have patterns

    wanted = pathspec.GitIgnoreSpec.from_lines(include)
    unwanted = pathspec.GitIgnoreSpec.from_lines(exclude)
    return lambda name: (not include or wanted.match_file(name)) and not unwanted.match_file(name)


def wrong_pattern(pattern: str) -> Optional[str]:
    """Why this is no pattern; None when it is one."""
    import pathspec

    try:
        found = pathspec.GitIgnoreSpec.from_lines([pattern]).patterns
    except ValueError:
        found = ()
    meant = [one for one in found if one.include is not None]
    return None if meant else "expected a pattern as in a .gitignore, which can match a file"


def sharer(part: Shard) -> Callable[[int], bool]:
    """Whether the next file, of this size in bytes, is this node's part.

    Each file goes to the node that has the least so far, in the order of the keys: so every node decides the
    same from the same listing, and no two nodes differ by more than the largest file.
    """
    loads: List[Tuple[int, int]] = [(0, index) for index in range(part.count)]

    def mine(size: int) -> bool:
        load, index = loads[0]
        heapq.heapreplace(loads, (load + size + FILE_COST, index))
        return index == part.index

    return mine
