"""The launch plan as text, with equal processes folded. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ma_boot.wording import counted, ranges

_NUMBER = re.compile(r"(\d+)")


class _Process(NamedTuple):
    """A process of a plan: the number of its node, its label, and its lines."""

    node: int
    label: str
    lines: tuple[str, ...]

    @property
    def template(self) -> tuple[str, ...]:
        """Label and lines without their numbers: equal for processes that differ in numbers alone."""
        return tuple(_NUMBER.sub("0", text) for text in (self.label, *self.lines))


def format_plans(descriptions: Sequence[Mapping[str, Any]]) -> str:
    """Formats the plans of nodes; `+` sets a variable, `-` removes variables.

    Processes that differ in numbers alone are shown once, each number that differs as `{0-7}`.
    """
    groups: dict[tuple[str, ...], list[_Process]] = {}
    for node in descriptions:
        for worker in node["workers"]:
            process = _Process(node["node"], worker["label"], tuple(_lines(worker)))
            groups.setdefault(process.template, []).append(process)
    lines = _headlines(descriptions)
    for processes in groups.values():
        lines.append(f"  {_headline(processes, len(descriptions))}")
        lines += [f"    {_folded(texts)}" for texts in zip(*(process.lines for process in processes))]
    return "\n".join(lines)


def _lines(worker: Mapping[str, Any]) -> list[str]:
    lines = [f"argv  {shlex.join(worker['argv'])}", f"cwd   {worker['cwd']}"]
    lines.append(f"log   {worker['log_file']}" + ("" if worker["shown"] else " (only)"))
    if worker["cores"]:
        lines.append(f"cores {','.join(map(str, worker['cores']))}")
    variables = worker["environment"].items()
    lines += [f"+ {name}={value}" for name, value in variables if value is not None]
    removed = [name for name, value in variables if value is None]
    return [*lines, f"- {', '.join(removed)}"] if removed else lines


def _headlines(descriptions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a line for each set of nodes with the same number of processes."""
    nodes: dict[tuple[int, int], list[int]] = {}
    for node in descriptions:
        nodes.setdefault((len(node["workers"]), node["world_size"]), []).append(node["node"])
    return [
        f"{_numbered('node', numbers)}: {counted(count, 'process', 'processes')}"
        f"{' each' if len(numbers) > 1 else ''}, world size {world_size}"
        for (count, world_size), numbers in nodes.items()
    ]


def _headline(processes: Sequence[_Process], nodes: int) -> str:
    kind, _, number = processes[0].label.rpartition(" ")
    label = processes[0].label
    if number.isdecimal():
        label = _numbered(kind, [int(process.label.rpartition(" ")[2]) for process in processes])
    return f"{label}, {_numbered('node', [each.node for each in processes])}" if nodes > 1 else label


def _numbered(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun}{'s' if len(set(numbers)) > 1 else ''} {ranges(numbers)}"


def _folded(texts: Sequence[str]) -> str:
    """Returns the text of all processes, with the numbers in which they differ as `{0-7}`."""
    parts = zip(*map(_NUMBER.split, texts))
    return "".join(same[0] if len(set(same)) == 1 else f"{{{ranges(map(int, same))}}}" for same in parts)
