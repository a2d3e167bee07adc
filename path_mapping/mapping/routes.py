"""Values of a path mapping: URLs, routes with their options, placeholders in both, and overlaps. Pure."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Callable, NamedTuple, Tuple

from path_mapping.mapping.document import Value

PLACEHOLDERS = ("job", "node", "rank")
_URL = re.compile(r"(?:obs|s3)://([^/]*)(?:/(.*))?", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")  # the naming rules of OBS
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class ObsUrl(NamedTuple):
    """`obs://bucket/key`; the key may be empty (the whole bucket) or end in `/` (a directory)."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str) -> ObsUrl:
        """Reads a URL, which starts with `obs://` or `s3://`. Raises `ValueError` with the expected form."""
        match = _URL.fullmatch(text)
        if match is None:
            raise ValueError(f"found {text!r}, expected 'obs://bucket/path'")
        bucket, key = match.group(1), match.group(2) or ""
        if not _BUCKET.fullmatch(bucket) or ".." in bucket:
            raise ValueError(
                f"found the bucket {bucket!r}, expected 3 to 63 lower-case letters, digits, '-' and '.'"
            )
        if any(part in (".", "..") for part in key.split("/")) or "//" in key or key.startswith("/"):
            raise ValueError(f"found {text!r}, expected a path without '//', '.' and '..'")
        if not is_text(key):
            raise ValueError(f"found {text!r}, expected a path without NUL, in Unicode")
        return cls(bucket, key)

    @classmethod
    def typed(cls, text: str) -> ObsUrl:
        """Reads a URL that was written by hand. Raises `ValueError`, also for invisible characters."""
        url = cls.parse(text)
        unseen = _unseen(url.key)
        if unseen:
            raise ValueError(f"found {text!r}, expected a path without {unseen}")
        return url

    @property
    def prefix(self) -> str:
        """Prefix of all keys below the URL: its key, with a `/` at the end unless it is empty."""
        return self.key if not self.key or self.key.endswith("/") else f"{self.key}/"

    def __str__(self) -> str:
        return f"obs://{self.bucket}/{self.key}"


class Route(NamedTuple):
    """One entry of the mapping; `local` is as written, so it may be relative and may end in `/`.

    `include` and `exclude` are .gitignore patterns for names below the route: a file is selected if there is
    no `include` or one matches, and no `exclude` matches. `interval` is the time in seconds between two
    uploads while the training runs; None for the last upload only. `shard`: each node downloads only its
    shard. `required`: a source that does not exist is an error. `delete`: files that the source no longer has
    are deleted from the target, if this route put them there. `checksum`: contents are compared, not sizes
    and times. `more` is the result of `MappingExtension` for further options, None without any.
    """

    local: str
    remote: ObsUrl
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    interval: float | None = None
    shard: bool = False
    required: bool = True
    delete: bool = False
    checksum: bool = False
    more: object = None

    def path(self, base: Path) -> Path:
        """Returns the local path, normalized; a relative one starts at `base`."""
        return Path(os.path.normpath(base / self.local))


class PathMapping(NamedTuple):
    """Inputs, downloaded before the training, and outputs, uploaded while it runs and after it.

    `caches` are the routes of the section `cache`, which only a `MappingExtension` reads.
    """

    inputs: tuple[Route, ...]
    outputs: tuple[Route, ...]
    caches: tuple[Route, ...] = ()


class MappingExtension(NamedTuple):
    """Further options of outputs that the reader of a mapping accepts, and the options of a section `cache`.

    `read` makes the `Route.more` of an output from the values of all its options by name, and their place in
    the mapping; its third argument collects problems. `read_cache` does so for a cache, whose only options
    are `obs` and `cache_names`; without names there is no such section. `check` returns a message for each
    mistake in the mapping; outputs with `more` are not compared with inputs otherwise.
    """

    names: tuple[str, ...] = ()
    read: Callable[[Mapping[str, Value], tuple[str, ...], list[str]], object] = lambda *values: None
    check: Callable[[PathMapping], list[str]] = lambda mapping: []
    cache_names: tuple[str, ...] = ()
    read_cache: Callable[[Mapping[str, Value], tuple[str, ...], list[str]], object] = lambda *values: None


def expand_placeholders(text: str, placeholders: Mapping[str, str]) -> str:
    """Replaces `{job}`, `{node}` and `{rank}` in a text; `{{` and `}}` are braces.

    `placeholders` has their values. Raises `ValueError` for any other placeholder, or a single brace.
    """

    def replacement(match: re.Match[str]) -> str:
        placeholder, name = match.group(0), match.group(1)
        if placeholder in ("{{", "}}"):
            return placeholder[0]
        if name is None:
            expected = f"expected '{placeholder * 2}' for a brace in a name"
            raise ValueError(f"found a single {placeholder!r}, {expected}")
        if name not in PLACEHOLDERS:
            raise ValueError(f"found the placeholder {placeholder}, expected {{job}}, {{node}} or {{rank}}")
        if name not in placeholders:
            raise ValueError(f"found {placeholder}, which has no value here")
        return placeholders[name]

    return _BRACES.sub(replacement, text)


def _unseen(key: str) -> str:
    """Returns the name of the first control, format or separating character, or of a blank at the end."""
    if key.isprintable() and not key.endswith(" "):
        return ""

    categories = ("Cc", "Cf", "Zl", "Zp")
    blank = key[len(key.rstrip()) :]
    unseen = [character for character in key if unicodedata.category(character) in categories] or list(blank)
    if not unseen:
        return ""
    control = {"\n": "LINE FEED", "\r": "CARRIAGE RETURN", "\t": "TAB", "\x7f": "DELETE"}
    name = unicodedata.name(unseen[0], "") or control.get(unseen[0], "a control character")
    return f"{name} (U+{ord(unseen[0]):04X})"


def is_text(text: str) -> bool:
    """Tells whether a text can be a file name and a key: it has no NUL and no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


Steps = Tuple[str, ...]
_INSIDE = "is inside"


def overlaps(mapping: PathMapping) -> list[str]:
    """Returns a message for each pair of routes that must not be combined.

    Targets (local paths of inputs, URLs of outputs) must not be the same, nor inside each other: the later
    route would overwrite the earlier. An output must not be inside an input, on either side: the next run
    would download this run's output. An input and an output may be the same, to continue an earlier run, and
    an input may be inside an output that excludes it.
    """
    problems = []
    for first, second in combinations(mapping.inputs, 2):
        how = local_relation(second, first)
        if how:
            problems.append(f"input: {second.local!r} {how} {first.local!r}: use separate paths")
    for first, second in combinations(mapping.outputs, 2):
        how = remote_relation(second, first)
        if how:
            other = f"{first.remote} of {first.local!r}"
            problems.append(f"output: {second.local!r}: {second.remote} {how} {other}: use separate URLs")
    for output, given in product(mapping.outputs, mapping.inputs):
        if output.more is not None:
            continue  # `MappingExtension.check` compares it
        if local_relation(output, given) == _INSIDE:
            problems.append(f"output: {output.local!r} {_INSIDE} the input {given.local!r}")
        if remote_relation(output, given) == _INSIDE:
            problems.append(f"output: {output.remote} {_INSIDE} the input {given.remote}")
    return problems


def local_relation(route: Route, other: Route) -> str:
    """Returns `is inside`, `contains` or `is the same as` if local paths overlap; else an empty string."""
    return _relation(_local(route), _local(other))


def remote_relation(route: Route, other: Route) -> str:
    """Returns the same for the URLs of two routes."""
    return _relation(_remote(route), _remote(other))


def _relation(own: Steps, other: Steps) -> str:
    if own == other:
        return "is the same as"
    if own[: len(other)] == other:
        return _INSIDE
    return "contains" if other[: len(own)] == own else ""


def _local(route: Route) -> Steps:
    path = os.path.normpath(route.local)
    # The base of a relative path is known later.
    root = "/" if path.startswith("/") else "."
    return (root, *(step for step in path.split("/") if step not in ("", ".")))


def _remote(route: Route) -> Steps:
    return (route.remote.bucket, *(step for step in route.remote.key.split("/") if step))
