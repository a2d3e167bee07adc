"""A layout from a user's patterns, such as `iter_{step}`. Pure."""

from __future__ import annotations

import re
from typing import List, Sequence

from path_mapping.layouts.layout import Layout, Need

_FIELDS = {"step": r"\d+", "epoch": r"\d+", "rank": r"\d+"}
_PARTS = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|\*+")


def pattern_layout(patterns: Sequence[str]) -> Layout:
    """The layout of files that have these names, or are below a directory that has one.

    Each pattern is a path relative to the output's directory with `{step}`, and may have `{epoch}`, `{rank}`
    and `*` for any characters of one name; `{{` and `}}` are braces. A step is complete when each pattern
    has a file: one with `{rank}` for every rank, the others on the node of rank 0. Raises `ValueError` with
    what is wrong.
    """
    expressions = [_expression(pattern) for pattern in patterns]
    ranks = any("(?P<rank>" in one for one in expressions)
    return Layout(
        name=" ".join(patterns),
        files=tuple(expressions),
        needs=tuple(map(Need, patterns, expressions)),
        by_rank=ranks,
        own_files=ranks,
        bound=tuple(one for one in expressions if "(?P<rank>" in one),
    )


def _expression(pattern: str) -> str:
    """The regular expression of a pattern."""
    names: List[str] = []

    def replacement(found: re.Match[str]) -> str:
        text, name = found.group(0), found.group(1)
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
        return f"(?P={name})" if name in names[:-1] else f"(?P<{name}>{_FIELDS[name]})"

    end, made = 0, ""
    for found in _PARTS.finditer(pattern):
        made += re.escape(pattern[end : found.start()]) + replacement(found)
        end = found.end()
    made += re.escape(pattern[end:].rstrip("/"))
    if "step" not in names:
        raise ValueError(f"{pattern!r}, expected a pattern with {{step}}, such as 'iter_{{step}}'")
    if any(part in ("", ".", "..") for part in pattern.rstrip("/").split("/")):
        raise ValueError(f"{pattern!r}, expected a relative path without '.' and '..'")
    return made + r"(?:/.*)?"
