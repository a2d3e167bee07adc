"""A document as a tree of values that know their line: what every reader returns, for one checker."""

from __future__ import annotations

from typing import Optional, Tuple, Union


class Value:
    """One value; an instance of this class itself is of a type that no mapping has, such as a date.

    `line` counts from 1, and is None if the format's reader does not know it. `shown` is the start of the
    value as it is written, for messages.
    """

    def __init__(self, line: Optional[int], shown: str) -> None:
        self.line = line
        self.shown = shown

    def place(self, *names: str) -> str:
        """Where it is, as the start of a message: `line 3: input: `."""
        where = [f"line {self.line}"] if self.line else []
        return "".join(f"{part}: " for part in (*where, *names))


class ScalarValue(Value):
    """A string, a number, true, false or null."""

    def __init__(self, line: Optional[int], shown: str, value: Union[str, int, float, bool, None]) -> None:
        super().__init__(line, shown)
        self.value = value


class ListValue(Value):
    """A list."""

    def __init__(self, line: Optional[int], shown: str, items: Tuple[Value, ...]) -> None:
        super().__init__(line, shown)
        self.items = items


class DictValue(Value):
    """A dict with every pair that is written, so that duplicate keys can be found."""

    def __init__(self, line: Optional[int], shown: str, pairs: Tuple[Tuple[Value, Value], ...]) -> None:
        super().__init__(line, shown)
        self.pairs = pairs


def brief(text: str) -> str:
    """The first 60 characters."""
    return text[:60]
