"""From a file to a mapping: every key, type, URL and pattern is checked, every mistake located."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

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
from path_mapping.mapping.routes import ObsUrl, OutputOptions, PathMapping, Route, expanded, is_text, overlaps
from path_mapping.mapping.selection import pattern_problem

SECTIONS = ("input", "output")
_ONLY = {"interval": "output", "shard": "input"}
_NO_MORE = OutputOptions()


def mapping_of(
    root: Value,
    title: str,
    placeholders: Mapping[str, str],
    problems: List[str],
    more: OutputOptions = _NO_MORE,
) -> PathMapping:
    """The mapping in a document. Mistakes are added to `problems`; `title` is the document's name in them.

    `placeholders` has the values of the placeholders, `more` are further options of outputs.
    """
    sections: Dict[str, Value] = {}
    if isinstance(root, DictValue):
        sections = _by_key(root, SECTIONS, (), problems)
    else:
        problems.append(f"{root.place(title)}expected a dict {{'input': ..., 'output': ...}}")
    routes = {name: _routes(value, name, placeholders, problems, more) for name, value in sections.items()}
    return PathMapping(tuple(routes.get("input", ())), tuple(routes.get("output", ())))


def _by_key(
    value: DictValue, known: Sequence[str], where: Tuple[str, ...], problems: List[str]
) -> Dict[str, Value]:
    found: Dict[str, Value] = {}
    for key, item in value.pairs:
        name = _string(key)
        if name is None or name not in known:
            problems.append(
                f"{key.place(*where)}found the key {key.shown}, expected one of {', '.join(known)}"
            )
        elif name in found:
            problems.append(f"{key.place(*where)}duplicate key {name!r}")
        else:
            found[name] = item
    return found


def _routes(
    value: Value, section: str, placeholders: Mapping[str, str], problems: List[str], more: OutputOptions
) -> List[Route]:
    if isinstance(value, ScalarValue) and value.value is None:
        return []  # YAML: a section with nothing but comments
    if not isinstance(value, DictValue):
        problems.append(f"{value.place(section)}expected a dict {{local path: 'obs://...'}}")
        return []
    routes: List[Route] = []
    seen: Dict[str, Tuple[str, Value]] = {}
    for key, item in value.pairs:
        local = _local(key, section, placeholders, problems)
        arguments = _arguments(item, local or key.shown, section, placeholders, problems, more)
        if local is None:
            continue
        first, earlier = seen.setdefault(os.path.normpath(local), (local, key))
        if earlier is not key:
            problems.append(key.place(section) + _duplicate(local, first, earlier))
        elif arguments is not None:
            routes.append(Route(local, **arguments))
    return routes


def _duplicate(local: str, first: str, earlier: Value) -> str:
    where = f", first on line {earlier.line}" if earlier.line else ""
    same = "" if local == first else f", the same path as {first!r}"
    return f"duplicate key {local!r}{same}{where}"


def _local(key: Value, section: str, placeholders: Mapping[str, str], problems: List[str]) -> Optional[str]:
    text = _string(key)
    if not text or not is_text(text):
        problems.append(f"{key.place(section)}found {key.shown}, expected a local path as a string")
        return None
    try:
        return expanded(text, placeholders)
    except ValueError as error:
        problems.append(f"{key.place(section)}{error}")
        return None


def _arguments(
    value: Value,
    local: str,
    section: str,
    placeholders: Mapping[str, str],
    problems: List[str],
    more: OutputOptions,
) -> Optional[Dict[str, Any]]:
    """The arguments of the `Route`; None without a valid URL."""
    if not isinstance(value, DictValue):
        url = _url(value, value.place(section), placeholders, problems)
        return None if url is None else {"remote": url}
    where = (section, repr(local))
    found = _by_key(value, ("obs", *_READERS, *more.names), where, problems)
    for name, only in {**_ONLY, **dict.fromkeys(more.names, "output")}.items():
        if name in found and only != section:
            problems.append(f"{found.pop(name).place(*where)}{name!r} is valid for an {only} only")
    further = more.read(found, where, problems) if section == "output" else None
    if "obs" not in found:
        problems.append(f"{value.place(*where)}no 'obs', expected 'obs': 'obs://bucket/path'")
        return None
    url = _url(found["obs"], found["obs"].place(*where), placeholders, problems)
    options = {
        name: read(found[name], found[name].place(*where, name), problems)
        for name, read in _READERS.items()
        if name in found
    }
    return None if url is None else {"remote": url, "more": further, **options}


def _url(value: Value, where: str, placeholders: Mapping[str, str], problems: List[str]) -> Optional[ObsUrl]:
    text = _string(value)
    if text is None:
        problems.append(f"{where}found {value.shown}, expected 'obs://bucket/path'")
        return None
    try:
        return ObsUrl.typed(expanded(text, placeholders))
    except ValueError as error:
        problems.append(f"{where}{error}")
        return None


def _patterns(value: Value, where: str, problems: List[str]) -> Tuple[str, ...]:
    if not isinstance(value, ListValue):
        problems.append(f"{where}found {value.shown}, expected a list of patterns such as ['*.ckpt']")
        return ()
    for item in value.items:
        text = _string(item)
        problem = "expected a pattern as a string" if text is None else pattern_problem(text)
        if problem:
            problems.append(f"{where}found {item.shown}, {problem}")
    return tuple(_string(item) or "" for item in value.items)


def _seconds(value: Value, where: str, problems: List[str]) -> Optional[float]:
    found = value.value if isinstance(value, ScalarValue) else None
    if isinstance(found, (int, float)) and not isinstance(found, bool) and 1 <= found < math.inf:
        return float(found)
    problems.append(f"{where}found {value.shown}, expected a number of seconds, at least 1")
    return None


def _flag(value: Value, where: str, problems: List[str]) -> bool:
    if isinstance(value, ScalarValue) and isinstance(value.value, bool):
        return value.value
    problems.append(f"{where}found {value.shown}, expected true or false")
    return False


_READERS: Dict[str, Callable[[Value, str, List[str]], Any]] = {
    "include": _patterns,
    "exclude": _patterns,
    "interval": _seconds,
    "shard": _flag,
    "required": _flag,
    "delete": _flag,
    "checksum": _flag,
}


def _string(value: Value) -> Optional[str]:
    return value.value if isinstance(value, ScalarValue) and isinstance(value.value, str) else None


_FORMATS = {".yaml": read_yaml, ".yml": read_yaml, ".json": read_json}


def read_mapping(
    path: Path,
    placeholders: Mapping[str, str] = MappingProxyType({}),
    more: OutputOptions = _NO_MORE,
) -> PathMapping:
    """The mapping in a file; `placeholders` has the values of the placeholders, `more` options of outputs.

    Raises `MappingInvalid` if the file cannot be read, or has mistakes: all of them.
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
    more: OutputOptions = _NO_MORE,
) -> PathMapping:
    """The mapping in `{'input': {local: obs}, 'output': {local: obs}}`.

    Each `obs` is a URL, or a dict with the URL as `obs` and the options of `Route`. The suffix of `source`
    decides the format: .yaml and .yml, .json, else Python with the assignment `PATH_MAPPING_CONFIG = {...}`.
    Raises `MappingInvalid` if the text has mistakes: all of them, each with its place.
    """
    problems: List[str] = []
    suffix = Path(source).suffix.lower()
    if suffix in _FORMATS:
        root, title = _FORMATS[suffix](text, problems), "the document"
    else:
        root, title = read_literal(text, problems), VARIABLE
    mapping = PathMapping((), ())
    if root is not None:
        mapping = mapping_of(root, title, placeholders, problems, more)
    problems += [*overlaps(mapping), *more.check(mapping)]
    if problems:
        raise MappingInvalid(source, problems)
    return mapping
