"""Colours of lines for a terminal: who printed them, warnings and failures. Pure."""

from __future__ import annotations

import re

_RED, _YELLOW, _GREEN, _BOLD, _PLAIN = b"\x1b[31m", b"\x1b[33m", b"\x1b[32m", b"\x1b[1m", b"\x1b[0m"
_OF_NUMBERS = (
    b"36",
    b"32",
    b"35",
    b"34",
    b"96",
    b"92",
    b"95",
    b"94",
)  # not red and yellow, which mean something
_LOOKED_AT = 400  # bytes of a line, for what it tells
_PREFIX = re.compile(rb"(?:\[(?:node|rank) \d{1,9}\] |\[(?:scheduler|command|ma_boot)\] ?)+")
_TAG = re.compile(rb"\[([a-z_]+)(?: (\d{1,9}))?\]")
_FAILURE = re.compile(
    rb"\bexit code (?!0\b)\d+:|\bfailed\b +(in )?\d|\bfailed first|\bthe cause: |was killed by|\bhung\b"
    rb"|^(  \| )?(Traceback \(most|\w+(\.\w+)*(Error|Exception)\b)|\b(ERROR|CRITICAL|FATAL)\b"
)
_WARNING = re.compile(
    rb"\bWARN(ING)?\b|\w+Warning: |^(hint|warning|note): |\bretrying\b|\bhave ended badly\b"
)
_SUCCESS = re.compile(rb"\bexit code 0: ")


def painted(data: bytes) -> bytes:
    """Whole lines with colours: their prefixes by node and rank, failures red, warnings yellow.

    A line that brings colours of its own keeps them; only its prefix is painted.
    """
    return b"\n".join(map(_painted_line, data.split(b"\n")))


def _painted_line(line: bytes) -> bytes:
    found = _PREFIX.match(line)
    if found is None:
        return line
    words = line[found.end() :]
    return _TAG.sub(_painted_tag, found.group()) + _painted_words(words)


def _painted_tag(tag: re.Match[bytes]) -> bytes:
    number = tag.group(2)
    style = _BOLD if number is None else b"\x1b[%sm" % _OF_NUMBERS[int(number) % len(_OF_NUMBERS)]
    return style + tag.group() + _PLAIN


def _painted_words(words: bytes) -> bytes:
    start = words[:_LOOKED_AT]
    if b"\x1b" in words:
        return words
    for pattern, style in ((_FAILURE, _RED), (_WARNING, _YELLOW), (_SUCCESS, _GREEN)):
        if pattern.search(start):
            return style + words + _PLAIN
    return words
