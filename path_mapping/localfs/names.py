"""Keys and file names: what one may become the other, and what is kept from the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import List, Optional

LONGEST_NAME = 255  # bytes, of one part of a path
LONGEST_PATH = 4095  # bytes
LONGEST_KEY = 1024  # bytes, of OBS


def unsafe(name: str) -> Optional[str]:
    """Why a key must not be a file's path below its target; None when it may.

    Keys are arbitrary: anybody who may write to the bucket chooses them. What is only unusual, as a newline
    or a backslash, is kept as it is.
    """
    parts = name.split("/")
    if "\0" in name:
        return "a NUL character"
    if "" in parts:
        return "an empty part between two '/', or a '/' at an end"
    if "." in parts or ".." in parts:
        return "a part that is '.' or '..'"
    try:
        whole = len(os.fsencode(name))
    except UnicodeEncodeError:
        return "a character that a file name here cannot have"
    if whole > LONGEST_NAME and max(len(os.fsencode(part)) for part in parts) > LONGEST_NAME:
        return f"a part longer than {LONGEST_NAME} bytes"
    return None


def no_key(key: str) -> Optional[str]:
    """Why a file's path cannot be a key; None when it can."""
    try:
        length = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8, as a key must be"
    return f"its key would have {length} bytes, OBS allows {LONGEST_KEY}" if length > LONGEST_KEY else None


def shown(path: Path) -> str:
    """The path as text that can be printed, whatever bytes its name has."""
    return printable(os.fsencode(path).decode("utf-8", "backslashreplace"))


def printable(text: str) -> str:
    """The key or name on one line, without what would move a terminal's cursor."""
    clean = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return clean.encode("utf-8", "backslashreplace").decode("utf-8")


class Clashes:
    """Finds names that need a file where another one needs a directory; names come in the order of keys.

    Names that begin alike stand together in that order: only files whose name begins this one are kept.
    `folded`: the disk takes `A` and `a` for one name.
    """

    def __init__(self, folded: bool) -> None:
        self._open: List[str] = []
        self._seen: Optional[set[int]] = set() if folded else None  # hashes: a million names in 64 MiB

    def problem(self, name: str) -> Optional[str]:
        """What is wrong with the next name; None for nothing."""
        while self._open and not name.startswith(self._open[-1]):
            self._open.pop()
        parent = next((one for one in self._open if name.startswith(one + "/")), None)
        if parent is not None:
            return f"{printable(parent)} is a file, not a directory"
        if self._seen is not None:
            folded = hash(name.casefold())
            if folded in self._seen:
                return "another key differs only in upper and lower case, and this disk takes them for one"
            self._seen.add(folded)
        if not name.endswith("/"):
            self._open.append(name)
        return None
