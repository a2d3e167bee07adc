"""The keys of a job file, and how the value of each is read. Pure."""

from __future__ import annotations

import re
import shlex
from typing import Any, Callable, Dict, Iterator, List, Tuple

from ma_boot.job.job_file import JobChannel, JobProblem
from path_mapping.mapping import DictValue, ListValue, ObsUrl, ScalarValue, Value, pattern_problem

_CHANNEL = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(@env)?")
_TIME = re.compile(r"(\d{1,4})\s?([hd])")
_SHOWN = 60  # characters that a value keeps of how it is written
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")  # RFC 8259
_SHELL = {"|", "||", "&", "&&", ";", ";;", "<", ">", ">>", "(", ")"}

Reader = Callable[[str, Value, List[JobProblem]], Any]


def _wrong(key: str, value: Value, expected: str, problems: List[JobProblem]) -> None:
    problems.append(JobProblem(value.line, key, f"found {value.shown}, expected {expected}"))


def text_of(value: Value) -> str:
    """A scalar as it is written: `0.10` stays `0.10`. Raises `ValueError` for anything else."""
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


def _text(key: str, value: Value, problems: List[JobProblem]) -> str:
    try:
        return text_of(value)
    except ValueError as error:
        _wrong(key, value, str(error), problems)
        return ""


def _count(least: int, most: int) -> Reader:
    def read(key: str, value: Value, problems: List[JobProblem]) -> int:
        number = value.value if isinstance(value, ScalarValue) else None
        if isinstance(number, int) and not isinstance(number, bool) and least <= number <= most:
            return number
        _wrong(key, value, f"a number from {least} to {most}", problems)
        return least

    return read


def _hours(key: str, value: Value, problems: List[JobProblem]) -> int:
    found = _TIME.fullmatch(str(value.value)) if isinstance(value, ScalarValue) else None
    if found and int(found[1]) > 0:
        return int(found[1]) * (24 if found[2] == "d" else 1)
    _wrong(key, value, "whole hours or days such as 24h or 3d", problems)
    return 0


def _words(key: str, value: Value, problems: List[JobProblem]) -> Tuple[str, ...]:
    """A command: a list of words, or a text that is split as a shell does, but never executed by one."""
    if isinstance(value, ListValue):
        return tuple(_text(key, item, problems) for item in value.items)
    text = _text(key, value, problems)
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


def _texts(key: str, value: Value, problems: List[JobProblem]) -> Tuple[str, ...]:
    items = value.items if isinstance(value, ListValue) else (value,)
    return tuple(_text(key, item, problems) for item in items)


def _patterns(key: str, value: Value, problems: List[JobProblem]) -> Tuple[str, ...]:
    found = _texts(key, value, problems)
    for pattern in found:
        wrong = pattern_problem(pattern)
        if wrong is not None:
            problems.append(JobProblem(value.line, key, f"{pattern!r}: {wrong}"))
    return found


def _url(key: str, value: Value, problems: List[JobProblem]) -> Any:
    try:
        return ObsUrl.typed(text_of(value))
    except ValueError as error:
        problems.append(JobProblem(value.line, key, str(error)))
        return None


def pairs_of(key: str, value: Value, problems: List[JobProblem]) -> Iterator[Tuple[str, Value]]:
    """The pairs of a dict by their names; any other value, and a name that is there twice, is a problem."""
    if not isinstance(value, DictValue):
        if not (isinstance(value, ScalarValue) and value.value is None):
            _wrong(key, value, "NAME: VALUE on lines of their own", problems)
        return
    seen: Dict[str, int] = {}
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


def _texts_by_name(key: str, value: Value, problems: List[JobProblem]) -> Dict[str, str]:
    return {name: _text(f"{key}: {name}", item, problems) for name, item in pairs_of(key, value, problems)}


def _channels(key: str, value: Value, problems: List[JobProblem]) -> Tuple[JobChannel, ...]:
    found: List[JobChannel] = []
    for name, item in pairs_of(key, value, problems):
        where, match = f"{key}: {name}", _CHANNEL.fullmatch(name)
        url = _url(where, item, problems)
        if match is None:
            problems.append(
                JobProblem(item.line, where, "expected NAME or NAME@env: letters, digits and _ only")
            )
        elif url is not None:
            found.append(JobChannel(match[1], url, bool(match[2])))
    return tuple(found)


def _options(key: str, value: Value, problems: List[JobProblem]) -> Tuple[str, ...]:
    """Options of ma_boot by their long names; true is a flag, a list repeats the option."""
    words: List[str] = []
    for name, item in pairs_of(key, value, problems):
        if isinstance(item, ScalarValue) and isinstance(item.value, bool):
            words += [f"--{name}"] if item.value else []
            continue
        for text in _texts(f"{key}: {name}", item, problems):
            words += [f"--{name}={text}"]
    return tuple(words)


def _json(key: str, value: Value, problems: List[JobProblem]) -> Any:
    """A part of the request as it is."""
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
    """Whether YAML and JSON read the same, unlike for `1:30`, `010` and `.nan`, in numbers of 64 bits."""
    if isinstance(value.value, str):
        return _is_unicode(value.value)
    if isinstance(value.value, (bool, type(None))):
        return True
    return bool(_NUMBER.fullmatch(value.shown)) and abs(value.value) < 1 << 63


def _json_object(key: str, value: Value, problems: List[JobProblem]) -> Any:
    found = _json(key, value, problems)
    if isinstance(found, dict) or found is None:
        return found or {}
    _wrong(key, value, "fields of the request such as spec:", problems)
    return {}


KEYS: Dict[str, Reader] = {
    "name": _text,
    "description": _text,
    "image": _text,
    "command": _words,
    "options": _options,
    "nodes": _count(1, 1024),
    "devices-per-node": _count(1, 16),
    "pool": _text,
    "flavor": _text,
    "code-dir": _text,
    "code-url": _url,
    "exclude": _patterns,
    "inputs": _channels,
    "outputs": _channels,
    "parameters": _texts_by_name,
    "environment": _texts_by_name,
    "secrets": _texts,
    "log-url": _url,
    "retries": _count(0, 128),
    "time-limit": _hours,
    "workspace": _text,
    "request": _json_object,
}


def read_text(key: str, option: str, text: str, problems: List[JobProblem]) -> Any:
    """The value of a key as an option gives it: a text, and `NAME=VALUE` for keys that are dicts."""
    value: Value = ScalarValue(None, repr(text), int(text) if text.isdecimal() else text)
    if KEYS[key] in (_channels, _texts_by_name):
        name, given, rest = text.partition("=")
        if not given:
            problems.append(JobProblem(None, option, f"found {text!r}, expected NAME=VALUE"))
            return KEYS[key](option, DictValue(None, "nothing", ()), problems)
        pair = (ScalarValue(None, repr(name), name), ScalarValue(None, repr(rest), rest))
        value = DictValue(None, repr(text), (pair,))
    elif KEYS[key] in (_text, _texts, _patterns):
        value = ScalarValue(None, repr(text), text)
    return KEYS[key](option, value, problems)
