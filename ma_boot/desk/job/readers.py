"""Readers of the values of a job file: one function per kind, which reports every mistake. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

from path_mapping.mapping.document import DictValue, ListValue, ScalarValue, Value
from path_mapping.mapping.routes import ObsUrl
from path_mapping.mapping.selection import pattern_problem

_CHANNEL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(@env)?")
_TIME = re.compile(r"(\d{1,4})\s?([hd])")
# Maximum number of characters of a value that a message shows.
_SHOWN = 60
# Numbers that YAML and JSON read as the same value (RFC 8259).
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
# What every reader of YAML, 1.1 or 1.2, takes for a text without quotes.
PLAIN = re.compile(r"(?i)(?!(?:yes|no|on|off|true|false|null)$)[a-z](?:[a-z0-9_./-]|[ :](?![ :]|$))+")
# Keys of `retry`. YAML 1.1 reads `on` as true.
_RETRY = {"when": "--retry-on", "never": "--no-retry-on"}
_SHELL = {"|", "||", "&", "&&", ";", ";;", "<", ">", ">>", "(", ")"}


class JobProblem(NamedTuple):
    """A mistake in a job: its line in the file (None outside of a file), its key, and its description."""

    line: int | None
    key: str
    text: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.key}: {self.text}" if self.key else f"{where}{self.text}"


@dataclass(frozen=True)
class JobChannel:
    """An input or output of the job form: its name and its place in OBS.

    The training receives the local path as an argument `--name=PATH`, or in the environment variable `name`.
    """

    name: str
    url: ObsUrl
    by_variable: bool = False

    @property
    def is_object(self) -> bool:
        """True if the place is one object, such as `data.tar`, and not a directory."""
        return re.search(r"\.[A-Za-z]\w*$", self.url.key) is not None

    def __str__(self) -> str:
        """Formats the channel as in the options `--input` and `--output`."""
        return f"{self.name}{'@env' if self.by_variable else ''}={self.url}"


Reader = Callable[[str, Value, list[JobProblem]], Any]


def _wrong(key: str, value: Value, expected: str, problems: list[JobProblem]) -> None:
    problems.append(JobProblem(value.line, key, f"found {value.shown}, expected {expected}"))


def text_of(value: Value) -> str:
    """Returns a scalar as it is written: `0.10` stays `0.10`. Raises `ValueError` for anything else."""
    if not isinstance(value, ScalarValue) or value.value is None:
        raise ValueError("a text or a number")
    if not isinstance(value.value, str):
        if len(value.shown) >= _SHOWN:
            raise ValueError("a number of this length in quotes")
        return value.shown
    if not _is_unicode(value.value) or "\0" in value.value:
        raise ValueError("a text without NUL and without halves of characters")
    return value.value


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def read_text(key: str, value: Value, problems: list[JobProblem]) -> str:
    try:
        return text_of(value)
    except ValueError as error:
        _wrong(key, value, str(error), problems)
        return ""


def read_count(least: int, most: int) -> Reader:
    def read(key: str, value: Value, problems: list[JobProblem]) -> int:
        number = value.value if isinstance(value, ScalarValue) else None
        if isinstance(number, int) and not isinstance(number, bool) and least <= number <= most:
            return number
        _wrong(key, value, f"a number from {least} to {most}", problems)
        return least

    return read


def read_hours(key: str, value: Value, problems: list[JobProblem]) -> int:
    match = _TIME.fullmatch(str(value.value)) if isinstance(value, ScalarValue) else None
    if match and int(match[1]) > 0:
        return int(match[1]) * (24 if match[2] == "d" else 1)
    _wrong(key, value, "whole hours or days such as 24h or 3d", problems)
    return 0


def read_words(key: str, value: Value, problems: list[JobProblem]) -> tuple[str, ...]:
    """Reads a command: a list of words, or a text that is split like a shell command, without expansion."""
    if isinstance(value, ListValue):
        return tuple(read_text(key, item, problems) for item in value.items)
    text = read_text(key, value, problems)
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.commenters, lexer.whitespace_split = "", True
        operators = [word for word in lexer if word in _SHELL]
        words = tuple(shlex.split(text))
    except ValueError as error:
        _wrong(key, value, f"a command ({error})", problems)
        return ()
    if operators:
        _wrong(key, value, f"one command without a shell's {operators[0]}: put it into a .sh file", problems)
    return words


def read_texts(key: str, value: Value, problems: list[JobProblem]) -> tuple[str, ...]:
    items = value.items if isinstance(value, ListValue) else (value,)
    return tuple(read_text(key, item, problems) for item in items)


def read_patterns(key: str, value: Value, problems: list[JobProblem]) -> tuple[str, ...]:
    patterns = read_texts(key, value, problems)
    for pattern in patterns:
        wrong = pattern_problem(pattern)
        if wrong is not None:
            problems.append(JobProblem(value.line, key, f"{pattern!r}: {wrong}"))
    return patterns


def read_url(key: str, value: Value, problems: list[JobProblem]) -> Any:
    try:
        return ObsUrl.typed(text_of(value))
    except ValueError as error:
        problems.append(JobProblem(value.line, key, str(error)))
        return None


def pairs_of(key: str, value: Value, problems: list[JobProblem]) -> Iterator[tuple[str, Value]]:
    """Returns the pairs of a dict; any other value and a repeated name are problems."""
    if not isinstance(value, DictValue):
        if not (isinstance(value, ScalarValue) and value.value is None):
            _wrong(key, value, "NAME: VALUE on lines of their own", problems)
        return
    seen: dict[str, int] = {}
    for name, item in value.pairs:
        try:
            text = text_of(name)
        except ValueError:
            _wrong(key, name, "a name", problems)
            continue
        if text in seen:
            at = f"{key}: {text}" if key else text
            problems.append(JobProblem(name.line, at, f"is already on line {seen[text]}"))
            continue
        seen[text] = name.line or 0
        yield text, item


def read_texts_by_name(key: str, value: Value, problems: list[JobProblem]) -> dict[str, str]:
    return {
        name: read_text(f"{key}: {name}", item, problems) for name, item in pairs_of(key, value, problems)
    }


def read_channels(key: str, value: Value, problems: list[JobProblem]) -> tuple[JobChannel, ...]:
    channels: list[JobChannel] = []
    for name, item in pairs_of(key, value, problems):
        where, match = f"{key}: {name}", _CHANNEL.fullmatch(name)
        url = read_url(where, item, problems)
        if match is None:
            problems.append(
                JobProblem(item.line, where, "expected NAME or NAME@env: letters, digits and _ only")
            )
        elif url is not None:
            channels.append(JobChannel(match[1], url, bool(match[2])))
    return tuple(channels)


def read_options(key: str, value: Value, problems: list[JobProblem]) -> tuple[str, ...]:
    """Reads options of ma_boot by their long names; true is a flag, a list repeats the option."""
    words: list[str] = []
    for name, item in pairs_of(key, value, problems):
        if isinstance(item, ScalarValue) and isinstance(item.value, bool):
            words += [f"--{name}"] if item.value else []
            continue
        for text in read_texts(f"{key}: {name}", item, problems):
            words += [f"--{name}={text}"]
    return tuple(words)


def read_retry(key: str, value: Value, problems: list[JobProblem]) -> tuple[str, ...]:
    """Reads expressions for failures, `when` they are worth a restart or `never`, into options of ma_boot."""
    words: list[str] = []
    for name, item in pairs_of(key, value, problems):
        where = f"{key}: {name}"
        if name not in _RETRY:
            problems.append(JobProblem(item.line, where, f"expected {' or '.join(_RETRY)}"))
            continue
        words += [f"{_RETRY[name]}={text}" for text in read_texts(where, item, problems)]
    return tuple(words)


def _json(key: str, value: Value, problems: list[JobProblem]) -> Any:
    """Reads a part of the request without changes."""
    if isinstance(value, DictValue):
        return {
            name: _json(f"{key}: {name}", item, problems) for name, item in pairs_of(key, value, problems)
        }
    if isinstance(value, ListValue):
        return [_json(key, item, problems) for item in value.items]
    if isinstance(value, ScalarValue) and _is_of_json(value):
        return value.value
    _wrong(key, value, "a value as JSON writes it; put dates, times and large numbers into quotes", problems)
    return None


def _is_of_json(value: ScalarValue) -> bool:
    """Returns whether JSON can express what YAML read: not `1:30`, `010`, `.nan` or numbers above 64 bits."""
    if isinstance(value.value, str):
        return _is_unicode(value.value)
    if isinstance(value.value, (bool, type(None))):
        return True
    return bool(_NUMBER.fullmatch(value.shown)) and abs(value.value) < 1 << 63


def read_json_object(key: str, value: Value, problems: list[JobProblem]) -> Any:
    document = _json(key, value, problems)
    if isinstance(document, dict) or document is None:
        return document or {}
    _wrong(key, value, "fields of the request such as spec:", problems)
    return {}
