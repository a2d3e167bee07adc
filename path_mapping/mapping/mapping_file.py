"""Reads a mapping from a file: checks every key, type, URL and pattern, and locates every mistake."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable

from path_mapping.errors import MappingInvalid
from path_mapping.mapping.document import (
    VARIABLE,
    DictValue,
    ListValue,
    ScalarValue,
    Value,
    read_json,
    read_literal,
    read_yaml,
)
from path_mapping.mapping.routes import (
    MappingExtension,
    ObsUrl,
    PathMapping,
    Route,
    expand_placeholders,
    is_text,
    overlaps,
)
from path_mapping.mapping.selection import pattern_problem

SECTIONS = ("input", "output")
CACHE = "cache"
_ONLY = {"interval": "output", "shard": "input"}
_NO_MORE = MappingExtension()


class MappingReader:
    """Reads the values of a document; each mistake is added to `problems`.

    `placeholders` has the values of the placeholders, `more` are further options and the section `cache`.
    """

    def __init__(self, placeholders: Mapping[str, str], more: MappingExtension) -> None:
        self.problems: list[str] = []
        self._placeholders = placeholders
        self._more = more
        self._readers: dict[str, Callable[[Value, str], object]] = {
            "include": self._patterns,
            "exclude": self._patterns,
            "interval": self._seconds,
            "shard": self._flag,
            "required": self._flag,
            "delete": self._flag,
            "checksum": self._flag,
        }

    def mapping(self, root: Value, title: str) -> PathMapping:
        """Reads the mapping in a document; `title` is the document's name in messages."""
        sections: dict[str, Value] = {}
        if isinstance(root, DictValue):
            known = (*SECTIONS, CACHE) if self._more.cache_names else SECTIONS
            sections = self._by_key(root, known, ())
        else:
            self.problems.append(f"{root.place(title)}expected a dict {{'input': ..., 'output': ...}}")
        routes = {name: tuple(self._routes(value, name)) for name, value in sections.items()}
        return PathMapping(routes.get("input", ()), routes.get("output", ()), routes.get(CACHE, ()))

    def _by_key(self, value: DictValue, known: Sequence[str], where: tuple[str, ...]) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for key, item in value.pairs:
            name = _string(key)
            if name is None or name not in known:
                expected = f"expected one of {', '.join(known)}"
                self.problems.append(f"{key.place(*where)}found the key {key.shown}, {expected}")
            elif name in values:
                self.problems.append(f"{key.place(*where)}duplicate key {name!r}")
            else:
                values[name] = item
        return values

    def _routes(self, value: Value, section: str) -> Iterator[Route]:
        if isinstance(value, ScalarValue) and value.value is None:
            return  # YAML: a section that has only comments
        if not isinstance(value, DictValue):
            self.problems.append(f"{value.place(section)}expected a dict {{local path: 'obs://...'}}")
            return
        seen: dict[str, tuple[str, Value]] = {}
        for key, item in value.pairs:
            local = self._local(key, section)
            arguments = self._arguments(item, local or key.shown, section)
            if local is None:
                continue
            first, earlier = seen.setdefault(os.path.normpath(local), (local, key))
            if earlier is not key:
                self.problems.append(key.place(section) + _duplicate(local, first, earlier))
            elif arguments is not None:
                yield Route(local, **arguments)

    def _local(self, key: Value, section: str) -> str | None:
        text = _string(key)
        if not text or not is_text(text):
            self.problems.append(f"{key.place(section)}found {key.shown}, expected a local path as a string")
            return None
        directory, pattern = _pattern_in(text)
        if pattern:
            expected = "expected a local path without '*' and '?'"
            instead = f"write {directory!r} with include: [{pattern!r}]"
            self.problems.append(f"{key.place(section)}found {text!r}, {expected}: {instead}")
            return None
        try:
            return expand_placeholders(text, self._placeholders)
        except ValueError as error:
            self.problems.append(f"{key.place(section)}{error}")
            return None

    def _arguments(self, value: Value, local: str, section: str) -> dict[str, Any] | None:
        """Reads the arguments of the `Route`; None without a valid URL."""
        if section == CACHE:
            return self._cache_arguments(value, local)
        if not isinstance(value, DictValue):
            url = self._url(value, value.place(section))
            return None if url is None else {"remote": url}
        where, more = (section, repr(local)), self._more
        values = self._by_key(value, ("obs", *self._readers, *more.names), where)
        for name, only in {**_ONLY, **dict.fromkeys(more.names, "output")}.items():
            if name in values and only != section:
                self.problems.append(f"{values.pop(name).place(*where)}{name!r} is valid for an {only} only")
        further = more.read(values, where, self.problems) if section == "output" else None
        if "obs" not in values:
            self.problems.append(f"{value.place(*where)}no 'obs', expected 'obs': 'obs://bucket/path'")
            return None
        url = self._url(values["obs"], values["obs"].place(*where))
        options = {
            name: read(values[name], values[name].place(*where, name))
            for name, read in self._readers.items()
            if name in values
        }
        return None if url is None else {"remote": url, "more": further, **options}

    def _cache_arguments(self, value: Value, local: str) -> dict[str, Any] | None:
        """Reads the arguments of the `Route` of a cache; None without a valid URL."""
        where, names = (CACHE, repr(local)), self._more.cache_names
        values = (
            self._by_key(value, ("obs", *names), where) if isinstance(value, DictValue) else {"obs": value}
        )
        if "obs" not in values:
            self.problems.append(f"{value.place(*where)}no 'obs', expected 'obs': 'obs://bucket/path'")
            return None
        url = self._url(values["obs"], values["obs"].place(*where))
        more = self._more.read_cache(values, where, self.problems)
        return None if url is None else {"remote": url, "more": more}

    def _url(self, value: Value, where: str) -> ObsUrl | None:
        text = _string(value)
        try:
            if text is None:
                raise ValueError(f"found {value.shown}, expected 'obs://bucket/path'")
            return ObsUrl.typed(expand_placeholders(text, self._placeholders))
        except ValueError as error:
            self.problems.append(f"{where}{error}")
            return None

    def _patterns(self, value: Value, where: str) -> tuple[str, ...]:
        if not isinstance(value, ListValue):
            self._wrong(value, where, "a list of patterns such as ['*.ckpt']")
            return ()
        for item in value.items:
            text = _string(item)
            problem = "expected a pattern as a string" if text is None else pattern_problem(text)
            if problem:
                self.problems.append(f"{where}found {item.shown}, {problem}")
        return tuple(_string(item) or "" for item in value.items)

    def _seconds(self, value: Value, where: str) -> float | None:
        number = value.value if isinstance(value, ScalarValue) else None
        if isinstance(number, (int, float)) and not isinstance(number, bool) and 1 <= number < math.inf:
            return float(number)
        self._wrong(value, where, "a number of seconds, at least 1")
        return None

    def _flag(self, value: Value, where: str) -> bool | None:
        if isinstance(value, ScalarValue) and isinstance(value.value, bool):
            return value.value
        self._wrong(value, where, "true or false")
        return None

    def _wrong(self, value: Value, where: str, expected: str) -> None:
        self.problems.append(f"{where}found {value.shown}, expected {expected}")


def _pattern_in(path: str) -> tuple[str, str]:
    """Splits a local path at its first name with `*` or `?` into directory and pattern."""
    names = path.split("/")
    first = next((index for index, name in enumerate(names) if "*" in name or "?" in name), len(names))
    directory = "/".join(names[:first]) or ("/" if path.startswith("/") else ".")
    return directory, "/".join(names[first:])


def _duplicate(local: str, first: str, earlier: Value) -> str:
    where = f", first on line {earlier.line}" if earlier.line else ""
    same = "" if local == first else f", the same path as {first!r}"
    return f"duplicate key {local!r}{same}{where}"


def _string(value: Value) -> str | None:
    return value.value if isinstance(value, ScalarValue) and isinstance(value.value, str) else None


_FORMATS = {".yaml": read_yaml, ".yml": read_yaml, ".json": read_json}


def read_mapping(
    path: Path,
    placeholders: Mapping[str, str] = MappingProxyType({}),
    more: MappingExtension = _NO_MORE,
) -> PathMapping:
    """Reads a mapping file; `placeholders` has the values of the placeholders, `more` options of outputs.

    Raises `MappingInvalid`, with all mistakes, if the file is invalid or cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise MappingInvalid(str(path), [f"the file cannot be read: {error}"]) from error
    return parse_mapping(text, str(path), placeholders, more)


def parse_mapping(
    text: str,
    source: str,
    placeholders: Mapping[str, str] = MappingProxyType({}),
    more: MappingExtension = _NO_MORE,
) -> PathMapping:
    """Reads a mapping `{'input': {local: obs}, 'output': {local: obs}}`.

    Each `obs` is a URL, or a dict with the URL as `obs` and the options of `Route`. The suffix of `source`
    decides the format: .yaml and .yml, .json, else Python with the assignment `PATH_MAPPING_CONFIG = {...}`.
    Raises `MappingInvalid` with all mistakes of the text, each with its place.
    """
    reader, suffix = MappingReader(placeholders, more), Path(source).suffix.lower()
    read, title = (_FORMATS[suffix], "the document") if suffix in _FORMATS else (read_literal, VARIABLE)
    root = read(text, reader.problems)
    mapping = PathMapping((), ()) if root is None else reader.mapping(root, title)
    problems = [*reader.problems, *overlaps(mapping), *more.check(mapping)]
    if problems:
        raise MappingInvalid(source, problems)
    return mapping
