"""A document as a tree of values that know their line: what each reader makes, for one checker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple, Union

Scalar = Union[str, int, float, bool, None]


@dataclass(frozen=True)
class Value:
    """One value: a `Scalar`, a list, a mapping, or what is none of these.

    `line` counts from 1, None where the format does not tell; `shown` is the value as it is written, short.
    """

    line: Optional[int]
    shown: str


@dataclass(frozen=True)
class ScalarValue(Value):
    """A string, a number, true, false or nothing."""

    value: Scalar


@dataclass(frozen=True)
class Items(Value):
    """A list."""

    items: Tuple[Value, ...]


@dataclass(frozen=True)
class Pairs(Value):
    """A mapping, with every pair that is written: a key may stand twice."""

    pairs: Tuple[Tuple[Value, Value], ...]


def brief(text: str) -> str:
    """At most 60 characters of it."""
    return text[:60]


def place(node: Value, *names: str) -> str:
    """Where it stands, as a message begins: `line 3: input: `."""
    where = [f"line {node.line}"] if node.line else []
    return "".join(f"{part}: " for part in (*where, *names))
