"""From a document to a mapping: every key, type, URL and pattern is checked, every mistake has its place."""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from path_mapping.mapping.document import Items, Pairs, ScalarValue, Value, place
from path_mapping.mapping.routes import ObsUrl, PathMapping, Route, expanded, is_text
from path_mapping.mapping.selection import wrong_pattern

SECTIONS = ("input", "output")
_OPTIONS = ("obs", "include", "exclude", "interval", "shard", "required", "delete", "checksum")
_ONLY = {"interval": "output", "shard": "input"}


def mapping_of(root: Value, title: str, places: Mapping[str, str], problems: List[str]) -> PathMapping:
    """The mapping in a document; `title` is how a message calls the whole of it."""
    sections = _sections(root, title, problems)
    routes = {name: _routes(node, name, places, problems) for name, node in sections.items()}
    return PathMapping(tuple(routes.get("input", ())), tuple(routes.get("output", ())))


def _sections(root: Value, title: str, problems: List[str]) -> Dict[str, Pairs]:
    if not isinstance(root, Pairs):
        problems.append(f"{place(root, title)}expected a dict {{'input': ..., 'output': ...}}")
        return {}
    sections: Dict[str, Pairs] = {}
    for key, node in root.pairs:
        name = _string(key)
        if name not in SECTIONS:
            problems.append(f"{place(key)}found the key {key.shown}, expected 'input' or 'output'")
        elif name in sections:
            problems.append(f"{place(key)}{name!r} stands twice")
        elif isinstance(node, ScalarValue) and node.value is None:
            sections[name] = Pairs(node.line, node.shown, ())  # YAML: nothing but comments below it
        elif not isinstance(node, Pairs):
            problems.append(f"{place(node)}{name!r}: expected a dict {{local path: 'obs://...'}}")
        else:
            sections[name] = node
    return sections


def _routes(section: Pairs, name: str, places: Mapping[str, str], problems: List[str]) -> List[Route]:
    routes: List[Route] = []
    seen: Dict[str, Tuple[str, Value]] = {}
    for key, node in section.pairs:
        local = _local(key, name, places, problems)
        options = _options(node, local or key.shown, name, places, problems)
        if local is None:
            continue
        first, earlier = seen.setdefault(os.path.normpath(local), (local, key))
        if earlier is not key:
            problems.append(place(key, name) + _repeated(local, first, earlier))
        elif options is not None:
            routes.append(Route(local, **options))
    return routes


def _repeated(local: str, first: str, node: Value) -> str:
    where = f"line {node.line}" if node.line else repr(first)
    if local == first:
        return f"{local!r} stands in {where} already" if node.line else f"{local!r} stands twice"
    return f"{local!r} is the path of {where} already"


def _local(key: Value, section: str, places: Mapping[str, str], problems: List[str]) -> Optional[str]:
    text = _string(key)
    if not text or not is_text(text):
        problems.append(f"{place(key, section)}found {key.shown}, expected a local path as a string")
        return None
    try:
        return expanded(text, places)
    except ValueError as error:
        problems.append(f"{place(key, section)}{error}")
        return None


def _options(
    node: Value, local: str, section: str, places: Mapping[str, str], problems: List[str]
) -> Optional[Dict[str, Any]]:
    """The arguments of the `Route`; None without a URL that is one."""
    if not isinstance(node, Pairs):
        url = _url(node, place(node, section), places, problems)
        return None if url is None else {"remote": url}
    found: Dict[str, Value] = {}
    for key, value in node.pairs:
        name = _string(key)
        where = place(key, section, repr(local))
        if name not in _OPTIONS:
            problems.append(f"{where}found the option {key.shown}, expected one of {', '.join(_OPTIONS)}")
        elif name in found:
            problems.append(f"{where}{name!r} stands twice")
        elif _ONLY.get(name, section) != section:
            problems.append(f"{where}{name!r} is for an {_ONLY[name]} only")
        else:
            found[name] = value
    if "obs" not in found:
        problems.append(f"{place(node, section, repr(local))}no 'obs', expected 'obs': 'obs://bucket/path'")
        return None
    url = _url(found["obs"], place(found["obs"], section, repr(local)), places, problems)
    values = {
        name: _READERS[name](value, place(value, section, repr(local), name), problems)
        for name, value in found.items()
        if name != "obs"
    }
    return None if url is None else {"remote": url, **values}


def _url(node: Value, where: str, places: Mapping[str, str], problems: List[str]) -> Optional[ObsUrl]:
    text = _string(node)
    if text is None:
        problems.append(f"{where}found {node.shown}, expected 'obs://bucket/path'")
        return None
    try:
        return ObsUrl.parse(expanded(text, places))
    except ValueError as error:
        problems.append(f"{where}{error}")
        return None


def _patterns(node: Value, where: str, problems: List[str]) -> Tuple[str, ...]:
    items = node.items if isinstance(node, Items) else ()
    if not isinstance(node, Items):
        problems.append(f"{where}found {node.shown}, expected a list of patterns as ['*.ckpt']")
    patterns = []
    for item in items:
        text = _string(item)
        problem = "expected a pattern as a string" if text is None else wrong_pattern(text)
        if problem:
            problems.append(f"{where}found {item.shown}, {problem}")
        patterns.append(text or "")
    return tuple(patterns)


def _seconds(node: Value, where: str, problems: List[str]) -> Optional[float]:
    value = node.value if isinstance(node, ScalarValue) else None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 1 <= value < math.inf:
        return float(value)
    problems.append(f"{where}found {node.shown}, expected a number of seconds from 1")
    return None


def _flag(node: Value, where: str, problems: List[str]) -> bool:
    if isinstance(node, ScalarValue) and isinstance(node.value, bool):
        return node.value
    problems.append(f"{where}found {node.shown}, expected true or false")
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


def _string(node: Value) -> Optional[str]:
    return node.value if isinstance(node, ScalarValue) and isinstance(node.value, str) else None
