"""The layouts that have a name, and which of them a tree of files has. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import Iterable, Mapping, Optional, Sequence

from path_mapping.layouts.layout import Layout, matches
from path_mapping.layouts.mindspore import MINDFORMERS, MINDFORMERS2, MINDSPORE
from path_mapping.layouts.pattern import pattern_layout
from path_mapping.layouts.pytorch import (
    ACCELERATE,
    DCP,
    DEEPSPEED,
    FILE,
    LIGHTNING,
    MEGATRON,
    MEGATRON_LEGACY,
    TRANSFORMERS,
)

AUTO = "auto"

# In the order in which `auto` tries them: what has the names of another layout inside comes before it.
_IN_ORDER = (
    *(MINDFORMERS2, MINDFORMERS, MINDSPORE),
    *(MEGATRON_LEGACY, MEGATRON, TRANSFORMERS, ACCELERATE, DEEPSPEED, LIGHTNING, DCP, FILE),
)
LAYOUTS: Mapping[str, Layout] = MappingProxyType({one.name: one for one in _IN_ORDER})


def recognise(paths: Iterable[str]) -> Optional[Layout]:
    """The layout of a tree with these files, relative to its root; None if none is known (yet)."""
    known = tuple(paths)
    for layout in LAYOUTS.values():
        if layout.tells and any(matches(layout.tells, path) for path in known):
            return layout
    return None


def layout_of(checkpoint: Sequence[str], paths: Iterable[str]) -> Optional[Layout]:
    """The layout of an output whose `checkpoint` is this, where its files are these.

    `checkpoint` is `("auto",)`, the name of a layout, or patterns. None if `auto` recognises nothing yet.
    Raises `ValueError` for a wrong pattern.
    """
    if tuple(checkpoint) == (AUTO,):
        return recognise(paths)
    if len(checkpoint) == 1 and checkpoint[0] in LAYOUTS:
        return LAYOUTS[checkpoint[0]]
    return pattern_layout(checkpoint)
