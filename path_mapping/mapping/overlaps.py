"""Routes that would write into each other, or feed a later run with its own outputs."""

from __future__ import annotations

import os
from typing import Callable, Iterator, List, Sequence, Tuple

from path_mapping.mapping.routes import PathMapping, Route

Steps = Tuple[str, ...]


def overlaps(mapping: PathMapping) -> List[str]:
    """Every pair of routes that must not be together, with the reason.

    A target (the local path of an input, the URL of an output) must not be another one's, nor lie in it: the
    later would write over the earlier. An output must not lie in an input, on either side: the next run would
    fetch what this one made. An input and an output that are the same are a way to go on; an input within an
    output is for `exclude` to settle.
    """
    problems = [
        f"input: {second.local!r} {_how(first_steps, second_steps)} {first.local!r}: give each its own place"
        for first, first_steps, second, second_steps in _pairs(mapping.inputs, _local)
    ]
    problems += [
        f"output: {second.local!r}: {second.remote} {_how(first_steps, second_steps)} {first.remote} of"
        f" {first.local!r}: give each its own place"
        for first, first_steps, second, second_steps in _pairs(mapping.outputs, _remote)
    ]
    for output in mapping.outputs:
        for given in mapping.inputs:
            if _inside(_local(given), _local(output)):
                problems.append(f"output: {output.local!r} lies in the input {given.local!r}")
            if _inside(_remote(given), _remote(output)):
                problems.append(f"output: {output.remote} lies in the input {given.remote}")
    return problems


def _pairs(
    routes: Sequence[Route], steps_of: Callable[[Route], Steps]
) -> Iterator[Tuple[Route, Steps, Route, Steps]]:
    """The pairs of which one is the other, or lies in it."""
    found = [(route, steps_of(route)) for route in routes]
    for number, (second, second_steps) in enumerate(found):
        for first, first_steps in found[:number]:
            shorter = min(len(first_steps), len(second_steps))
            if first_steps[:shorter] == second_steps[:shorter]:
                yield first, first_steps, second, second_steps


def _how(first: Steps, second: Steps) -> str:
    if first == second:
        return "is the same as"
    return "lies in" if len(first) < len(second) else "holds"


def _inside(outer: Steps, inner: Steps) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _local(route: Route) -> Steps:
    path = os.path.normpath(route.local)
    root = "/" if path.startswith("/") else "."  # only at its start is it known where a relative path lies
    return (root, *(step for step in path.split("/") if step not in ("", ".")))


def _remote(route: Route) -> Steps:
    return (route.remote.bucket, *(step for step in route.remote.key.split("/") if step))
