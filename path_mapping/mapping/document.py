"""A document as a tree of values that know their line: what every reader returns, for one checker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple, Union


@dataclass(frozen=True)
class Value:
    """One value; an instance of this class itself is of a type that no mapping has, such as a date.

    `line` counts from 1, and is None if the format's reader does not know it. `shown` is the start of the
    value as it is written, for messages.
    """

    line: Optional[int]
    shown: str

    def place(self, *names: str) -> str:
        """Where it is, as the start of a message: `line 3: input: `."""
        where = [f"line {self.line}"] if self.line else []
        return "".join(f"{part}: " for part in (*where, *names))


@dataclass(frozen=True)
class ScalarValue(Value):
    """A string, a number, true, false or null."""

    value: Union[str, int, float, bool, None]


@dataclass(frozen=True)
class ListValue(Value):
    """A list."""

    items: Tuple[Value, ...]


@dataclass(frozen=True)
class DictValue(Value):
    """A dict with every pair that is written, so that duplicate keys can be found."""

    pairs: Tuple[Tuple[Value, Value], ...]


def brief(text: str) -> str:
    """The first 60 characters."""
    return text[:60]
