"""Routes that would overwrite each other, or feed a later run with its own outputs. Pure."""

from __future__ import annotations

import os
from typing import Callable, Iterator, List, Sequence, Tuple

from path_mapping.mapping.routes import PathMapping, Route

Steps = Tuple[str, ...]


def overlaps(mapping: PathMapping) -> List[str]:
    """A message for each pair of routes that must not be combined.

    Targets (local paths of inputs, URLs of outputs) must not be the same, nor inside each other: the later
    route would overwrite the earlier. An output must not be inside an input, on either side: the next run
    would download what this one produced. An input and an output may be the same, to continue an earlier run,
    and an input may be inside an output: `exclude` is for that.
    """
    problems = [
        f"input: {second.local!r} {_how(first_steps, second_steps)} {first.local!r}: use separate paths"
        for first, first_steps, second, second_steps in _pairs(mapping.inputs, _local)
    ]
    problems += [
        f"output: {second.local!r}: {second.remote} {_how(first_steps, second_steps)} {first.remote} of"
        f" {first.local!r}: use separate URLs"
        for first, first_steps, second, second_steps in _pairs(mapping.outputs, _remote)
    ]
    for output in mapping.outputs:
        for given in mapping.inputs:
            if _inside(_local(given), _local(output)):
                problems.append(f"output: {output.local!r} is inside the input {given.local!r}")
            if _inside(_remote(given), _remote(output)):
                problems.append(f"output: {output.remote} is inside the input {given.remote}")
    return problems


def _pairs(
    routes: Sequence[Route], steps_of: Callable[[Route], Steps]
) -> Iterator[Tuple[Route, Steps, Route, Steps]]:
    """The pairs of which one is the same as the other, or inside it."""
    found = [(route, steps_of(route)) for route in routes]
    for number, (second, second_steps) in enumerate(found):
        for first, first_steps in found[:number]:
            shorter = min(len(first_steps), len(second_steps))
            if first_steps[:shorter] == second_steps[:shorter]:
                yield first, first_steps, second, second_steps


def _how(first: Steps, second: Steps) -> str:
    if first == second:
        return "is the same as"
    return "is inside" if len(first) < len(second) else "contains"


def _inside(outer: Steps, inner: Steps) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _local(route: Route) -> Steps:
    path = os.path.normpath(route.local)
    root = "/" if path.startswith("/") else "."  # where a relative path starts is known later
    return (root, *(step for step in path.split("/") if step not in ("", ".")))


def _remote(route: Route) -> Steps:
    return (route.remote.bucket, *(step for step in route.remote.key.split("/") if step))
