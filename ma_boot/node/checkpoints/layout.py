"""What a layout is: how one framework names the files of a checkpoint, as data. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from re import Match, Pattern
from typing import NamedTuple

BASE = r"(?P<base>(?:[^/]+/)*?)"  # the directories above the ones that the layout names
HIGHEST = 10**18  # no number of a step is as high: what looks like one is something else
_GLOBAL_STEP = re.compile(r"global_step\d+")  # DeepSpeed's directory, inside the one of its caller
UNFINISHED = (
    r".*(?:\.tmp|\.dirty\.pt|\.part|\.incomplete|-unfinished|/checkpoint-is-incomplete\.txt)"
    r"|(?:.*/)?(?:tmp-[^/]*|[^/]*_tmp)/.*"
)
EPOCH = 10**9  # what an epoch counts in the number of a step, where the names have both


class TrainingStep(NamedTuple):
    """A step of the training; `number`, below `HIGHEST`, is its order, `name` is how the layout writes it."""

    number: int
    name: str


class Mark(NamedTuple):
    """A file that rank 0 writes when its step is complete; `expression` matches its path.

    With `content` the file names a step, by the groups `step` and `epoch`: this step, or an earlier one, is
    complete. `barrier`: all ranks of all nodes have written before it. So the files of rank 0's node are then
    whole if none of them is younger than the mark; else they must also have come to rest.
    """

    name: str
    expression: str
    content: str = ""
    barrier: bool = False


@dataclass(frozen=True)
class Marker:
    """A file that a framework looks for to find a step: where it is, and its content.

    Both are templates with the groups of the layout's expressions: `{base}`, `{step}`, `{rank}`, ...;
    `{quoted}` is `{name}` as a JSON string. Numbers are without leading zeros.
    """

    path: str
    text: str


@dataclass(frozen=True)
class Layout:
    """How a framework lays out the files of a step.

    All expressions match a whole path, relative to the output's directory, with `/`. Those in `files` have
    the group `step`, and may have `base` (directories above), `epoch`, `rank` (whose file it is) and others
    for markers. A path that none of them matches belongs to no step.

    `each_rank` match files that every rank has of every step, with the group `rank`, or without, when there
    are as many as the node has ranks. `ranks_end`: they are the last ones that a rank writes, or get their
    names when they are whole. `needs` are files that the node of rank 0 has, which do not tell that others
    are there, as `marks` do.
    """

    name: str
    files: tuple[str, ...]
    tells: str = ""  # matches a path wherever this layout is; empty: `auto` does not try it
    marks: tuple[Mark, ...] = ()
    needs: tuple[Mark, ...] = ()
    each_rank: tuple[str, ...] = ()
    ranks_end: bool = False
    savers: str = "all"  # "first": only the process of rank 0 writes, by the framework's documents or source
    unfinished: str = UNFINISHED  # files that are being written
    metadata: tuple[str, ...] = ()  # files of a step that say what is in the others: they are sent last
    pointers: tuple[str, ...] = ()  # files that name a step: never sent, and made anew from `markers`
    markers: tuple[Marker, ...] = ()
    own_files: bool = False  # a rank reads its own files only; else each node needs all
    bound: tuple[str, ...] = (".*",)  # files that only as many ranks can read as have written them

    def step_of(self, path: str) -> TrainingStep | None:
        """The step that a path belongs to, also if the file is unfinished; None if to none."""
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
        """The rank whose file it is; None if the name does not tell."""
        match = self._match(path)
        rank = match.groupdict().get("rank") if match else None
        return None if rank is None else int(rank)

    def step_at(self, path: str) -> TrainingStep | None:
        """The step of a path that may also be the directory of a step."""
        return self.step_of(path) or self.step_of(f"{path}/.metadata")

    def steps(self, paths: Iterable[str]) -> dict[TrainingStep, tuple[str, ...]]:
        """The paths of each step, with its unfinished files; the oldest step first, paths sorted."""
        by_step: dict[TrainingStep, list[str]] = {}
        for path in paths:
            step = self.step_of(path)
            if step is not None:
                by_step.setdefault(step, []).append(path)
        return {step: tuple(sorted(by_step[step])) for step in sorted(by_step)}

    def is_unfinished(self, path: str) -> bool:
        """Whether the name says that the file is being written."""
        return matches(self.unfinished, path)

    def is_pointer(self, path: str) -> bool:
        """Whether it is a file that names a step: it is never sent and never trusted."""
        return any(matches(pattern, path) for pattern in self.pointers)

    def reshards(self, paths: Iterable[str]) -> bool:
        """Whether another number of ranks can read a set with these files."""
        return not any(matches(pattern, path) for path in paths for pattern in self.bound)

    def shape(self, path: str) -> str:
        """The path without the numbers of its step: equal for the same file of two steps."""
        match = self._match(path)
        spans = (
            [match.span(name) for name in ("step", "epoch") if name in match.re.groupindex] if match else []
        )
        for start, end in sorted(spans, reverse=True):
            path = f"{path[:start]}*{path[end:]}" if start >= 0 else path
        return _GLOBAL_STEP.sub("global_step*", path)

    def in_order(self, paths: Iterable[str]) -> list[str]:
        """Files of a step as they are to be sent: data, then what describes the data."""
        described = {path: any(matches(pattern, path) for pattern in self.metadata) for path in paths}
        return sorted(described, key=lambda path: (described[path], path))

    def needed(self, paths: Iterable[str], ranks: Iterable[int]) -> list[str]:
        """Which files of a set these ranks read.

        All where a rank reads more than its own files, and where one of them has none in the set:
        data-parallel ranks may read those of another.
        """
        own = {path: self.rank_of(path) for path in paths}
        wanted = set(ranks)
        if not self.own_files or not wanted <= {rank for rank in own.values() if rank is not None}:
            return sorted(own)
        return sorted(path for path, rank in own.items() if rank is None or rank in wanted)

    def marker_files(self, paths: Iterable[str]) -> dict[str, str]:
        """The markers for a set with these files: path and content of each."""
        made: dict[str, str] = {}
        for path in paths:
            match = self._match(path)
            fields = _fields(match) if match else {}
            for marker in self.markers:
                try:
                    made[marker.path.format_map(fields)] = marker.text.format_map(fields)
                except KeyError:  # this file's name does not have what this marker is about
                    continue
        return dict(sorted(made.items()))

    def _match(self, path: str) -> Match[str] | None:
        tries = (compiled(pattern).fullmatch(path) for pattern in self.files)
        return next((match for match in tries if match), None)


def matches(expression: str, path: str) -> bool:
    """Whether an expression of a layout matches a path."""
    return compiled(expression).fullmatch(path) is not None


def _fields(match: Match[str]) -> dict[str, str]:
    fields = {name: text for name, text in match.groupdict().items() if text is not None}
    numbers = {name: str(int(text)) for name, text in fields.items() if name in ("step", "epoch", "rank")}
    quoted = {"quoted": json.dumps(fields["name"])} if "name" in fields else {}
    return {**fields, **numbers, **quoted}


@lru_cache(maxsize=512)
def compiled(expression: str) -> Pattern[str]:
    """An expression of a layout, compiled."""
    return re.compile(expression, re.DOTALL)
