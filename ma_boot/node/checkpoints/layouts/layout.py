"""Layouts: how a framework names the files of a checkpoint, as data. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from re import Match, Pattern
from typing import NamedTuple

# The directories above the ones that a layout names.
BASE = r"(?P<base>(?:[^/]+/)*?)"
# Numbers of steps are lower: a higher number in a name is something else.
HIGHEST = 10**18
# The number of an epoch in a step's number, where the names have both: 3 * 10**9 + 400 is step 400 of epoch
# 3.
EPOCH = 10**9
# DeepSpeed's directory, inside the one of its caller.
_GLOBAL_STEP = re.compile(r"global_step\d+")
# Names of files that frameworks are still writing.
UNFINISHED = (
    r".*(?:\.tmp|\.dirty\.pt|\.part|\.incomplete|-unfinished|/checkpoint-is-incomplete\.txt)"
    r"|(?:.*/)?(?:tmp-[^/]*|[^/]*_tmp)/.*"
)


class TrainingStep(NamedTuple):
    """A step of the training; `number`, below `HIGHEST`, is its order, `name` is how the layout writes it."""

    number: int
    name: str


class Mark(NamedTuple):
    """A file that rank 0 writes when its step is complete; `expression` matches its path.

    With `content` the file names a step, by the groups `step` and `epoch`: this step, or an earlier one, is
    complete. `barrier`: all ranks of all nodes have written before it. So the files of rank 0's node are
    complete if none of them is younger than the mark; without a barrier they must also have come to rest.
    """

    name: str
    expression: str
    content: str = ""
    barrier: bool = False


@dataclass(frozen=True)
class Marker:
    """A file by which a framework finds a step: templates of its path and its content.

    Their fields are the groups of the layout's expressions: `{base}`, `{step}`, `{rank}`, ...; `{quoted}` is
    `{name}` as a JSON string. Numbers have no leading zeros.
    """

    path: str
    text: str


@dataclass(frozen=True)
class Layout:
    """The files of a step of one framework.

    All expressions match a whole path, relative to the output's directory, with `/`. Those in `files` have
    the group `step`, and may have `base` (directories above), `epoch`, `rank` (whose file it is) and others
    for markers. A path that none of them matches belongs to no step.

    `each_rank` match files that every rank has of every step, with the group `rank`, or without, when there
    are as many as the node has ranks. `ranks_end`: they are the last ones that a rank writes, or get their
    names when they are complete. `needs` are files that the node of rank 0 has; unlike `marks` they do not
    show that other files are complete.
    """

    name: str
    files: tuple[str, ...]
    # Matches a path of every tree with this layout; empty: `auto` does not try it.
    tells: str = ""
    marks: tuple[Mark, ...] = ()
    needs: tuple[Mark, ...] = ()
    each_rank: tuple[str, ...] = ()
    ranks_end: bool = False
    # "first": only the process of rank 0 writes, by the framework's documents or source.
    savers: str = "all"
    # Files that are being written.
    unfinished: str = UNFINISHED
    # Files of a step that describe its other files: they are uploaded last.
    metadata: tuple[str, ...] = ()
    # Files that name a step: never uploaded, and made anew from `markers`.
    pointers: tuple[str, ...] = ()
    markers: tuple[Marker, ...] = ()
    # A rank reads its own files only; otherwise each node needs all.
    own_files: bool = False
    # Files that only the same number of ranks can read.
    bound: tuple[str, ...] = (".*",)

    def step_of(self, path: str) -> TrainingStep | None:
        """Returns the step of a path, also of an unfinished file; None if it belongs to none."""
        match = self._match(path)
        if match is None:
            return None
        groups = match.groupdict()
        step, epoch = int(groups["step"]), groups.get("epoch")
        if epoch is None:
            return TrainingStep(step, str(step)) if step < HIGHEST else None
        number = int(epoch) * EPOCH + step
        return TrainingStep(number, f"{int(epoch)}_{step}") if step < EPOCH and number < HIGHEST else None

    def rank_of(self, path: str) -> int | None:
        """Returns the rank in the name of a file; None if there is none."""
        match = self._match(path)
        rank = match.groupdict().get("rank") if match else None
        return None if rank is None else int(rank)

    def step_at(self, path: str) -> TrainingStep | None:
        """Returns the step of a path that may also be the directory of a step."""
        return self.step_of(path) or self.step_of(f"{path}/.metadata")

    def steps(self, paths: Iterable[str]) -> dict[TrainingStep, tuple[str, ...]]:
        """Groups paths by step, with unfinished files; the oldest step first, paths sorted."""
        by_step: dict[TrainingStep, list[str]] = {}
        for path in paths:
            step = self.step_of(path)
            if step is not None:
                by_step.setdefault(step, []).append(path)
        return {step: tuple(sorted(by_step[step])) for step in sorted(by_step)}

    def is_unfinished(self, path: str) -> bool:
        """Returns whether the name shows that the file is being written."""
        return matches(self.unfinished, path)

    def is_pointer(self, path: str) -> bool:
        """Returns whether the file names a step: it is never uploaded and never trusted."""
        return any(matches(pattern, path) for pattern in self.pointers)

    def reshards(self, paths: Iterable[str]) -> bool:
        """Returns whether another number of ranks can read a checkpoint with these files."""
        return not any(matches(pattern, path) for path in paths for pattern in self.bound)

    def shape(self, path: str) -> str:
        """Returns the path without the numbers of its step: equal for the same file of two steps."""
        match = self._match(path)
        spans = (
            [match.span(name) for name in ("step", "epoch") if name in match.re.groupindex] if match else []
        )
        for start, end in sorted(spans, reverse=True):
            path = f"{path[:start]}*{path[end:]}" if start >= 0 else path
        return _GLOBAL_STEP.sub("global_step*", path)

    def in_order(self, paths: Iterable[str]) -> list[str]:
        """Returns the files of a step in the order of their upload: data, then metadata."""
        described = {path: any(matches(pattern, path) for pattern in self.metadata) for path in paths}
        return sorted(described, key=lambda path: (described[path], path))

    def needed(self, paths: Iterable[str], ranks: Iterable[int]) -> list[str]:
        """Returns the files of a checkpoint that these ranks read.

        All where a rank reads more than its own files, and where one of them has none:
        data-parallel ranks may read those of another.
        """
        own = {path: self.rank_of(path) for path in paths}
        wanted = set(ranks)
        if not self.own_files or not wanted <= {rank for rank in own.values() if rank is not None}:
            return sorted(own)
        return sorted(path for path, rank in own.items() if rank is None or rank in wanted)

    def marker_files(self, paths: Iterable[str]) -> dict[str, str]:
        """Returns path and content of the markers for a checkpoint with these files."""
        made: dict[str, str] = {}
        for path in paths:
            match = self._match(path)
            fields = _fields(match) if match else {}
            for marker in self.markers:
                try:
                    made[marker.path.format_map(fields)] = marker.text.format_map(fields)
                # The name of this file lacks a field of the marker.
                except KeyError:
                    continue
        return dict(sorted(made.items()))

    def _match(self, path: str) -> Match[str] | None:
        tries = (compile_expression(pattern).fullmatch(path) for pattern in self.files)
        return next((match for match in tries if match), None)


def matches(expression: str, path: str) -> bool:
    """Returns whether an expression of a layout matches a path."""
    return compile_expression(expression).fullmatch(path) is not None


def _fields(match: Match[str]) -> dict[str, str]:
    fields = {name: text for name, text in match.groupdict().items() if text is not None}
    numbers = {name: str(int(text)) for name, text in fields.items() if name in ("step", "epoch", "rank")}
    quoted = {"quoted": json.dumps(fields["name"])} if "name" in fields else {}
    return {**fields, **numbers, **quoted}


@lru_cache(maxsize=512)
def compile_expression(expression: str) -> Pattern[str]:
    """Compiles an expression of a layout."""
    return re.compile(expression, re.DOTALL)
