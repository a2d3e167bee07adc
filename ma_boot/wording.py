"""Messages, and numbers as text, for the terminal and the page. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from typing_extensions import Self

MOST_NESTED = 6  # messages in each other
MOST_GAPS = 40
_LINES = r"\{\}(\n\{\})*"


class Message(str):
    """A text of ma_boot in English that can be translated: a template with `{}` as gaps, and their values.

    `template` is the English text with `{}` for each of the `args`, which may be messages themselves. `str`
    keeps it a message; whatever cuts it or puts it into another text makes a plain text of it.
    """

    template: str
    args: tuple[str, ...]

    def __new__(cls, template: str, args: tuple[str, ...] = ()) -> Message:
        first, *rest = template.split("{}")
        message = super().__new__(cls, first + "".join(arg + piece for arg, piece in zip(args, rest)))
        message.template, message.args = template, args
        return message

    @classmethod
    def of(cls, template: str, *args: object) -> Message:
        """Returns the message with these values in its gaps."""
        return cls(template, tuple(arg if isinstance(arg, str) else str(arg) for arg in args))

    def __str__(self) -> str:
        return self

    @property
    def parts(self) -> list[Any]:
        """Returns the template and the values as a JSON value."""
        return [self.template, *(arg.parts if isinstance(arg, Message) else arg for arg in self.args)]


WARNING = "warning: "  # begins the first line of a `WarningLine`
PROGRESS_MARK = " "  # ends the first line of a `ProgressLine`; no other line of ma_boot ends in a blank


class _Line(str):
    """A line with a kind; `text` is the text without it, which stays a `Message`."""

    text: str

    def __new__(cls, text: str) -> Self:
        line = super().__new__(cls, text)
        line.text = text
        return line


class WarningLine(_Line):
    """A line that needs action or reports a possible loss; no view filters it out."""


class ProgressLine(_Line):
    """A line on expected progress; the default view of a rehearsal filters it out."""


def marked(text: str) -> str:
    """Returns the text as it is printed; its kind is recognizable from its first line."""
    first, *rest = map(_without_mark, lines_of(text.text if isinstance(text, _Line) else text))
    if isinstance(text, WarningLine) and not first.startswith(WARNING):
        first = Message.of("{}{}", WARNING, first)
    elif isinstance(text, ProgressLine):
        first = Message.of("{}{}", first, PROGRESS_MARK)
    return in_lines([first, *rest])


def _without_mark(line: str) -> str:
    return line.rstrip() if line.endswith(PROGRESS_MARK) else line


def in_lines(texts: Sequence[str]) -> str:
    """Joins lines to one text that keeps those that are messages."""
    return Message("\n".join(["{}"] * len(texts)), tuple(texts))


def lines_of(text: str) -> list[str]:
    """Splits a text into its lines, the inverse of `in_lines`."""
    if isinstance(text, Message) and re.fullmatch(_LINES, text.template):
        return [line for arg in text.args for line in lines_of(arg)]
    return [text] if "\n" not in text else text.split("\n")


def coded(value: Any) -> Any:
    """Adds the templates of messages to a JSON value, so that a reader can translate them.

    Each object gets a field `messages` with the `parts` of those of its texts that are messages.
    """
    if isinstance(value, Mapping):
        parts = {name: part.parts for name, part in value.items() if isinstance(part, Message)}
        return {name: coded(part) for name, part in value.items()} | ({"messages": parts} if parts else {})
    return [coded(part) for part in value] if isinstance(value, (list, tuple)) else value


def text_in(fields: Mapping[str, Any], name: str, clean: Callable[[str], str]) -> str:
    """Reads a text, as a `Message` if `coded` has added its template; empty if there is none.

    The value comes from a file or another node, so its shape is checked, and `clean` is applied to each part.
    """
    messages, text = fields.get("messages"), fields.get(name)
    message = _message(messages.get(name), clean, MOST_NESTED) if isinstance(messages, Mapping) else None
    if message is not None:
        return message
    return clean(text) if isinstance(text, str) else ""


def _message(parts: object, clean: Callable[[str], str], depth: int) -> Message | None:
    if not isinstance(parts, list) or not depth or not all(isinstance(part, (str, list)) for part in parts):
        return None
    template, *args = parts or [""]
    if not isinstance(template, str) or len(args) > MOST_GAPS or template.count("{}") != len(args):
        return None
    read = [clean(arg) if isinstance(arg, str) else _message(arg, clean, depth - 1) for arg in args]
    texts = tuple(arg for arg in read if arg is not None)
    right = len(texts) == len(args) and template.replace("\n", "").isprintable()
    return Message(template, texts) if right else None


def duration(seconds: float) -> str:
    """Formats seconds as `0.4 s`, `12.3 s`, `2 min 48 s` or `2 h 4 min`."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(count: float) -> str:
    """Formats bytes in decimal units: `3.1 MB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.5 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} PB"


def counted(count: int, singular: str, plural: str = "") -> str:
    """Formats a count with its noun: `1 file`, `2 files`; `plural` is for nouns that take no `s`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def list_first(items: Sequence[object], most: int) -> str:
    """Lists the first items and the number of the others: `a, b, c and 4 more`."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more


def ranges(numbers: Iterable[int], dash: str = "-") -> str:
    """Formats whole numbers in any order as `0-3, 8, 10-15`; empty for none."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}{dash}{high}" for low, high in spans)


def ranks_text(ranks: Iterable[int]) -> str:
    """Formats ranks as `rank 3` or `ranks 0-6, 8`."""
    known = set(ranks)
    return Message.of("ranks {}" if len(known) > 1 else "rank {}", ranges(known))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligns the cells of rows; returns a line for each row."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
