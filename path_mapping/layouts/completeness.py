"""Whether a step is complete on this node, as far as names tell. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Collection, Dict, List, Mapping, Sequence, Set, Tuple

from path_mapping.layouts.layout import Layout, TrainingStep, compiled, matches

_SHARD = re.compile(r"(.*-)(\d+)(-of-)(\d+)(\D.*)", re.DOTALL)


@dataclass(frozen=True)
class Completeness:
    """What a step lacks on this node.

    `missing` is a message for each thing that must come; empty: all that names promise is there. `sure`:
    nothing more will come; else further files may follow, and only time tells.
    """

    missing: Tuple[str, ...]
    sure: bool


def completeness(
    layout: Layout,
    found: Mapping[TrainingStep, Sequence[str]],
    step: TrainingStep,
    ranks: Collection[int],
    ended: bool = False,
) -> Completeness:
    """Whether `step` is complete on the node of these `ranks`.

    `found` has the files of every step of this training on this node (`Layout.steps`), also of steps that
    are on the disk no more. `ended`: the training has ended by itself, with success, so that nothing comes
    any more. A step before another one is over in the same way: ranks wait for each other between two
    checkpoints. A rank that saved nothing in the other steps is not expected to.
    """
    paths = found.get(step, ())
    over = ended or any(other > step for other in found)
    written = [path for path in paths if not layout.is_unfinished(path)]
    missing = [f"{path} is being written" for path in paths if layout.is_unfinished(path)]
    expected = _savers(layout, found) & set(ranks) if over or len(found) > 1 else set(ranks)
    missing += _ranks_missing(layout, written, expected)
    if 0 in ranks:
        missing += [
            f"no {need.name}"
            for need in layout.needs
            if "rank" not in compiled(need.expression).groupindex
            and not any(matches(need.expression, path) for path in written)
        ]
    missing += [] if over else _shards_missing(written)
    last = bool(layout.last) and 0 in ranks and any(matches(layout.last, path) for path in written)
    sure = layout.ends or over or last or _as_before(layout, found, step)
    return Completeness(tuple(missing), not missing and sure)


def _as_before(layout: Layout, found: Mapping[TrainingStep, Sequence[str]], step: TrainingStep) -> bool:
    """Whether every file that the step before had is there."""
    before = max((other for other in found if other < step), default=None)
    if before is None:
        return False
    return {layout.shape(path) for path in found[before]} <= {layout.shape(path) for path in found[step]}


def _savers(layout: Layout, found: Mapping[TrainingStep, Sequence[str]]) -> Set[int]:
    """The ranks that have files of their own in any step."""
    ranks = {layout.rank_of(path) for paths in found.values() for path in paths}
    return {rank for rank in ranks if rank is not None}


def _ranks_missing(layout: Layout, written: Sequence[str], expected: Set[int]) -> List[str]:
    """What the ranks that are expected to save have not written yet; nothing if no name tells a rank."""
    have = {layout.rank_of(path) for path in written} - {None}
    if not layout.by_rank or (written and not have):
        return []
    missing = [f"no file of rank {rank}" for rank in sorted(expected) if rank not in have]
    for need in layout.needs:
        expression = compiled(need.expression)
        if "rank" in expression.groupindex:
            tries = [expression.fullmatch(path) for path in written]
            those = {int(found["rank"]) for found in tries if found and found["rank"]}
            lacking = sorted((expected & {rank for rank in have if rank is not None}) - those)
            missing += [f"no {need.name} of rank {rank}" for rank in lacking]
    return missing


def _shards_missing(paths: Sequence[str]) -> List[str]:
    """Files such as `model-00001-of-00003.safetensors` that are not there yet.

    One process writes them all, as a rule; what is not there when the step is over, is on another node.
    """
    series: Dict[Tuple[str, str, str], Set[int]] = {}
    for path in paths:
        shard = _SHARD.fullmatch(path)
        if shard:
            before, number, _, count, after = shard.groups()
            series.setdefault((before, count, after), set()).add(int(number))
    missing = []
    for (before, count, after), numbers in sorted(series.items()):
        start = 0 if 0 in numbers else 1
        for number in sorted(set(range(start, int(count) + start)) - numbers):
            missing.append(f"no file {before}{number:0{len(count)}d}-of-{count}{after}")
    return missing
