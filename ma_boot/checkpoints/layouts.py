"""The layouts that have a name, those of a user's patterns, and which of them a tree of files has. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Iterable, List, Mapping, Optional, Sequence

from ma_boot.checkpoints.frameworks import (
    ACCELERATE,
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
from ma_boot.checkpoints.layout import Layout, Mark, matches

AUTO = "auto"

# In the order in which `auto` tries them: what has the names of another layout inside comes before it.
_IN_ORDER = (
    *(MINDFORMERS2, MINDFORMERS, MINDSPORE, MEGATRON_LEGACY, MEGATRON, TRANSFORMERS, ACCELERATE),
    *(DEEPSPEED, LIGHTNING_SHARDED, LIGHTNING, DCP, FILE),
)
LAYOUTS: Mapping[str, Layout] = MappingProxyType({layout.name: layout for layout in _IN_ORDER})


def layout_of(checkpoint: Sequence[str], paths: Iterable[str]) -> Optional[Layout]:
    """The layout of an output whose `checkpoint` is this, where its files are these, relative to its root.

    `checkpoint` is `("auto",)`, the name of a layout, or patterns. None if `auto` recognises nothing yet.
    Raises `ValueError` for a wrong pattern.
    """
    if tuple(checkpoint) == (AUTO,):
        known = tuple(paths)
        for layout in LAYOUTS.values():
            if layout.tells and any(matches(layout.tells, path) for path in known):
                return layout
        return None
    if len(checkpoint) == 1 and checkpoint[0] in LAYOUTS:
        return LAYOUTS[checkpoint[0]]
    return pattern_layout(checkpoint)


_FIELDS = ("step", "epoch", "rank")  # each a number
_PARTS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|\*+")


def pattern_layout(patterns: Sequence[str]) -> Layout:
    """The layout of files that have these names, or are below a directory that has one.

    Each pattern is a path relative to the output's directory with `{step}`, and may have `{epoch}`, `{rank}`
    and `*` for any characters of one name; `{{` and `}}` are braces. Each pattern has a file of every step:
    one with `{rank}` of every rank, the others on the node of rank 0. Raises `ValueError` with what is wrong.
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
    """The regular expression of a pattern."""
    names: List[str] = []

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
