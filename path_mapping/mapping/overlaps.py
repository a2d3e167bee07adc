"""Routes that would overwrite each other, or feed a later run with its own outputs. Pure."""

from __future__ import annotations

import os
from itertools import combinations, product
from typing import List, Tuple

from path_mapping.mapping.routes import PathMapping, Route

Steps = Tuple[str, ...]
_INSIDE = "is inside"


def overlaps(mapping: PathMapping) -> List[str]:
    """A message for each pair of routes that must not be combined.

    Targets (local paths of inputs, URLs of outputs) must not be the same, nor inside each other: the later
    route would overwrite the earlier. An output must not be inside an input, on either side: the next run
    would download what this one produced. An input and an output may be the same, to continue an earlier
    run, and an input may be inside an output: `exclude` is for that. An output of checkpoints and an input
    have nothing in common: what is published is no tree of files, and what is restored replaces the
    directory's contents.
    """
    problems = []
    for first, second in combinations(mapping.inputs, 2):
        how = _relation(_local(second), _local(first))
        if how:
            problems.append(f"input: {second.local!r} {how} {first.local!r}: use separate paths")
    for first, second in combinations(mapping.outputs, 2):
        how = _relation(_remote(second), _remote(first))
        if how:
            there = f"{first.remote} of {first.local!r}"
            problems.append(f"output: {second.local!r}: {second.remote} {how} {there}: use separate URLs")
    for output, given in product(mapping.outputs, mapping.inputs):
        if output.checkpoint:
            problems += _input_of_checkpoints(output, given)
            continue
        if _relation(_local(output), _local(given)) == _INSIDE:
            problems.append(f"output: {output.local!r} {_INSIDE} the input {given.local!r}")
        if _relation(_remote(output), _remote(given)) == _INSIDE:
            problems.append(f"output: {output.remote} {_INSIDE} the input {given.remote}")
    return problems


def _input_of_checkpoints(output: Route, given: Route) -> List[str]:
    problems = []
    if _relation(_remote(given), _remote(output)):
        problems.append(
            f"input: {given.remote}: {output.remote} has checkpoints, which are no input: "
            f"'restore': 'latest' of the output {output.local!r} fetches them"
        )
    how = _relation(_local(given), _local(output))
    if how:
        problems.append(
            f"input: {given.local!r} {how} the directory of checkpoints {output.local!r}: use separate paths"
        )
    return problems


def _relation(one: Steps, other: Steps) -> str:
    if one == other:
        return "is the same as"
    if one[: len(other)] == other:
        return _INSIDE
    return "contains" if other[: len(one)] == one else ""


def _local(route: Route) -> Steps:
    path = os.path.normpath(route.local)
    root = "/" if path.startswith("/") else "."  # where a relative path starts is known later
    return (root, *(step for step in path.split("/") if step not in ("", ".")))


def _remote(route: Route) -> Steps:
    return (route.remote.bucket, *(step for step in route.remote.key.split("/") if step))
