"""The named layouts, the layouts of users' patterns, and recognition of the layout of files. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ma_boot.node.checkpoints.layouts.frameworks import (
    ACCELERATE,
    ANY,
    DCP,
    DEEPSPEED,
    FILE,
    LIGHTNING,
    LIGHTNING_SHARDED,
    MEGATRON,
    MEGATRON_LEGACY,
    MINDFORMERS,
    MINDFORMERS2,
    MINDSPORE,
    TRANSFORMERS,
)
from ma_boot.node.checkpoints.layouts.layout import Layout, Mark, matches
from ma_boot.node.checkpoints.layouts.step_names import Seen, step_names_of

AUTO = "auto"

# In the order in which `auto` tries them: a layout that may contain the names of another one comes before it.
_IN_ORDER = (
    *(MINDFORMERS2, MINDFORMERS, MINDSPORE, MEGATRON_LEGACY, MEGATRON, TRANSFORMERS, ACCELERATE),
    *(DEEPSPEED, LIGHTNING_SHARDED, LIGHTNING, DCP, FILE),
)
LAYOUTS: Mapping[str, Layout] = MappingProxyType({layout.name: layout for layout in _IN_ORDER})


class Recognition(NamedTuple):
    """The layout of an output, None if its files show none, and files of weights whose names show no step."""

    layout: Layout | None
    unclear: tuple[str, ...] = ()


def recognise(
    checkpoint: Sequence[str], files: Mapping[str, Seen], ranks: Collection[int] = (), gap: float = 0.0
) -> Recognition:
    """Recognises the layout of files, relative to the output's directory, with this `checkpoint` option.

    `auto` tries the layouts of frameworks first, then the numbers in the names: `ranks` and `gap` are those
    of `step_names_of`. Raises `ValueError` for a wrong pattern.
    """
    layout = layout_by_name(checkpoint) or framework_of(files)
    if layout is not None:
        return Recognition(layout)
    names = step_names_of(files, ranks, gap)
    if not names.patterns:
        return Recognition(None, names.unclear)
    expressions = tuple(map(_expression, names.patterns))
    return Recognition(Layout(name=" ".join(names.patterns), files=expressions, bound=()), names.unclear)


def layout_by_name(checkpoint: Sequence[str]) -> Layout | None:
    """Returns the layout that a `checkpoint` option names, or describes by patterns; None for `auto`.

    Raises `ValueError` for a wrong pattern.
    """
    if tuple(checkpoint) == (AUTO,):
        return None
    if len(checkpoint) == 1 and checkpoint[0] in LAYOUTS:
        return LAYOUTS[checkpoint[0]]
    return pattern_layout(checkpoint)


def framework_of(paths: Iterable[str]) -> Layout | None:
    """Returns the framework's layout of these paths; None if they have none."""
    known = tuple(paths)
    for layout in LAYOUTS.values():
        if layout.tells and any(matches(layout.tells, path) for path in known):
            return layout
    return None


def read_layout(name: str) -> Layout:
    """Returns the layout that a manifest names. Raises `ValueError` if this version does not know it."""
    return ANY if name in ("", ANY.name) else LAYOUTS.get(name) or pattern_layout(name.split(" "))


# Placeholders of patterns, each for a number.
_FIELDS = ("step", "epoch", "rank")
_PARTS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|\*+")


def pattern_layout(patterns: Sequence[str]) -> Layout:
    """Makes the layout of files with these names, and of files below directories with these names.

    Each pattern is a path relative to the output's directory with `{step}`, and may have `{epoch}`, `{rank}`
    and `*` for any characters of one name; `{{` and `}}` are braces. A complete step has a file of each
    pattern: of every rank for one with `{rank}`, on the node of rank 0 for the others. Raises `ValueError`
    for a wrong pattern.
    """
    expressions = [_expression(pattern) for pattern in patterns]
    of_ranks = [expression for expression in expressions if "(?P<rank>" in expression]
    return Layout(
        name=" ".join(patterns),
        files=tuple(expressions),
        needs=tuple(Mark(*pair) for pair in zip(patterns, expressions) if pair[1] not in of_ranks),
        each_rank=tuple(of_ranks),
        own_files=bool(of_ranks),
        bound=tuple(of_ranks),
    )


def _expression(pattern: str) -> str:
    """Returns the regular expression of a pattern."""
    names: list[str] = []

    def replacement(match: re.Match[str]) -> str:
        text, name = match.group(0), match.group(1)
        if text in ("{{", "}}"):
            return re.escape(text[0])
        if text == "*":
            return "[^/]*"
        if text.startswith("*"):
            raise ValueError(f"'**' in {pattern!r}, expected '*', which stands for a part of one name")
        if name is None:
            raise ValueError(f"a single {text!r}, expected '{text * 2}' for a brace in a name")
        if name not in _FIELDS:
            raise ValueError(f"the placeholder {text}, expected {{step}}, {{epoch}} or {{rank}}")
        names.append(name)
        return f"(?P={name})" if name in names[:-1] else rf"(?P<{name}>\d+)"

    end, made = 0, ""
    for match in _PARTS.finditer(pattern):
        made += re.escape(pattern[end : match.start()]) + replacement(match)
        end = match.end()
    made += re.escape(pattern[end:].rstrip("/"))
    if "step" not in names:
        raise ValueError(f"{pattern!r}, expected a pattern with {{step}}, such as 'iter_{{step}}'")
    if any(part in ("", ".", "..") for part in pattern.rstrip("/").split("/")):
        raise ValueError(f"{pattern!r}, expected a relative path without '.' and '..'")
    return made + r"(?:/.*)?"
