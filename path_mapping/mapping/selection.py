"""Selection of files by patterns, and their distribution to shards. Pure."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from typing import Callable

# Bytes: the cost of a request, so that empty files are balanced, too.
FILE_COST = 64 << 10


class Shard:
    """One of `count` parts of an input; `index` counts from 0. Raises `ValueError` for any other index."""

    def __init__(self, index: int = 0, count: int = 1) -> None:
        if not 0 <= index < count:
            raise ValueError(f"found shard {index} of {count}, expected 0 to {count - 1}")
        self.index = index
        self.count = count


def selected(include: Sequence[str], exclude: Sequence[str]) -> Callable[[str], bool] | None:
    """Returns a function that tells whether a name below the route is selected; None if all are.

    A directory's name ends in `/`. The patterns are those of .gitignore: the last one that matches decides.
    """
    if not include and not exclude:
        return None
    import pathspec  # slow to import, and few routes have patterns

    wanted = pathspec.GitIgnoreSpec.from_lines(include)
    unwanted = pathspec.GitIgnoreSpec.from_lines(exclude)
    return lambda name: (not include or wanted.match_file(name)) and not unwanted.match_file(name)


def literal_pattern(name: str) -> str:
    """Returns the .gitignore pattern that matches exactly this name."""
    return "/" + re.sub(r"([\\*?\[\]!# ])", r"\\\1", name)


def pattern_problem(pattern: str) -> str | None:
    """Returns the problem of a pattern; None if it can match a file."""
    import pathspec

    try:
        patterns = pathspec.GitIgnoreSpec.from_lines([pattern]).patterns
    except (ValueError, re.error):
        patterns = ()
    effective = [rule for rule in patterns if rule.include is not None]
    return None if effective else "expected a .gitignore pattern that can match a file"


def sharer(shard: Shard) -> Callable[[int], bool]:
    """Returns a function that tells whether the next file, of a size in bytes, belongs to the shard.

    In the order of the keys, each file goes to the shard with the fewest bytes so far. So all nodes decide
    the same from the same listing, and no two shards differ by more than the largest file.
    """
    if shard.count == 1:
        return lambda size: True
    loads: list[tuple[int, int]] = [(0, index) for index in range(shard.count)]

    def mine(size: int) -> bool:
        load, index = loads[0]
        heapq.heapreplace(loads, (load + size + FILE_COST, index))
        return index == shard.index

    return mine
