"""Keys as file names, file names as keys, and both as printable text. Pure."""

from __future__ import annotations

import os
import re
from pathlib import Path

from path_mapping.errors import printable

# Bytes of one component of a path: NAME_MAX of Linux.
LONGEST_NAME = 255
# Bytes: PATH_MAX of Linux, without the final NUL.
LONGEST_PATH = 4095
# Bytes of a key in UTF-8: the limit of OBS.
LONGEST_KEY = 1024
# The end of the name of an unfinished file.
TEMPORARY = ".ma_part"
# Nearly every name: no part is empty or begins with a dot, so none is "." or "..", or an unfinished file's.
_USUAL = re.compile(r"[^/.\0][^/\0]*(/[^/.\0][^/\0]*)*")
_UNFINISHED = re.compile(r"\..*\.[0-9a-f]{12,16}(\.parts)?\.ma_part", re.DOTALL)


def is_temporary(name: str) -> bool:
    """Tells whether a name is that of an unfinished file or its journal: `.NAME.0123456789ab.ma_part`."""
    return name.endswith(TEMPORARY) and _UNFINISHED.fullmatch(name) is not None


def name_problem(name: str) -> str | None:
    """Returns the reason why a key must not become a file's path below its target; None if it may.

    Keys are untrusted: every writer of the bucket chooses some. Unusual characters, such as a newline or a
    backslash, are allowed.
    """
    if len(name) <= LONGEST_NAME and name.isascii() and _USUAL.fullmatch(name):
        return None
    parts = name.split("/")
    if "\0" in name:
        return "a NUL character"
    if "" in parts:
        return "an empty part between two '/', or a '/' at an end"
    if "." in parts or ".." in parts:
        return "a part that is '.' or '..'"
    if is_temporary(parts[-1]):
        return "a name that only unfinished files of ma_boot have; `exclude` leaves it out"
    try:
        whole = len(os.fsencode(name))
    except UnicodeEncodeError:
        return "a character that a file name here cannot have"
    if whole > LONGEST_NAME and max(len(os.fsencode(part)) for part in parts) > LONGEST_NAME:
        return f"a part longer than {LONGEST_NAME} bytes"
    return None


def key_problem(key: str) -> str | None:
    """Returns the reason why a file's path cannot be a key; None if it can."""
    try:
        length = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not UTF-8, as a key must be"
    return f"its key would have {length} bytes, OBS allows {LONGEST_KEY}" if length > LONGEST_KEY else None


def shown(path: Path) -> str:
    """Returns the path as printable text, whatever bytes its name has."""
    return printable(os.fsencode(path).decode("utf-8", "backslashreplace"))


class Clashes:
    """Finds names that need a directory where another name is a file, given all names in the order of keys.

    Names with a common prefix are adjacent in that order, so only files that this name starts with are kept.
    `folded`: the disk ignores case, so names that differ only in case clash too.
    """

    def __init__(self, folded: bool) -> None:
        self._open: list[str] = []
        self._seen: set[int] | None = set() if folded else None  # hashes: 64 MiB for a million names

    def problem(self, name: str) -> str | None:
        """Returns the clash of the next name with an earlier one; None without a clash."""
        while self._open and not name.startswith(self._open[-1]):
            self._open.pop()
        for parent in self._open:
            if name.startswith(parent + "/"):
                return f"{printable(parent)} is a file, not a directory"
        if self._seen is not None:
            folded = hash(name.casefold())
            if folded in self._seen:
                return "another key differs only in upper and lower case, and this disk takes them for one"
            self._seen.add(folded)
        if not name.endswith("/"):
            self._open.append(name)
        return None
