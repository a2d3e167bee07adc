"""Reads a path mapping: `path_mapping_config.py` as a literal, never executed."""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from path_mapping.errors import MappingInvalid

VARIABLE = "PATH_MAPPING_CONFIG"
SECTIONS = ("input", "output")
_URL = re.compile(r"(?:obs|s3)://([^/]*)(?:/(.*))?", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


@dataclass(frozen=True)
class ObsUrl:
    """`obs://bucket/key`; the key may be empty (the whole bucket), or end in `/` (a directory)."""

    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str) -> ObsUrl:
        """The URL written `obs://` or `s3://`; raises `ValueError` with what was found and expected."""
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
        if not _is_text(key):
            raise ValueError(f"found {text!r}, expected a path without NUL, in Unicode")
        return cls(bucket, key)

    def __str__(self) -> str:
        return f"obs://{self.bucket}/{self.key}"


@dataclass(frozen=True)
class Route:
    """One entry of the mapping; `local` is as written, so it may be relative and may end in `/`."""

    local: str
    remote: ObsUrl


@dataclass(frozen=True)
class PathMapping:
    """What is downloaded before the training and uploaded after it."""

    inputs: Tuple[Route, ...]
    outputs: Tuple[Route, ...]


def read_mapping(path: Path) -> PathMapping:
    """The mapping in a file; raises `MappingInvalid`, also for a file that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MappingInvalid(str(path), [f"the file cannot be read: {error}"]) from error
    return parse_mapping(text, str(path))


def parse_mapping(text: str, source: str) -> PathMapping:
    """The mapping in `PATH_MAPPING_CONFIG = {'input': {local: obs}, 'output': {local: obs}}`.

    That is the file which X2MindSpore generates (x2ms_adapter/modelarts/path_mapping_config.py). Beside the
    assignment it may hold comments and a docstring. Raises `MappingInvalid` with every mistake and its line.
    """
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise MappingInvalid(source, [f"line {line}: not Python: {getattr(error, 'msg', error)}"]) from error
    problems: List[str] = []
    value = _assigned(module, problems)
    sections = _sections(value, problems) if value is not None else {}
    routes = {name: _routes(node, name, problems) for name, node in sections.items()}
    if problems:
        raise MappingInvalid(source, problems)
    return PathMapping(tuple(routes.get("input", ())), tuple(routes.get("output", ())))


def _assigned(module: ast.Module, problems: List[str]) -> Optional[ast.expr]:
    """The value of the one assignment; anything else that would be executed is a problem."""
    value: Optional[ast.expr] = None
    for statement in module.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        name = _target(statement)
        if name != VARIABLE or not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            problems.append(f"line {statement.lineno}: found other code, expected only {VARIABLE} = {{...}}")
        elif value is not None:
            problems.append(f"line {statement.lineno}: {VARIABLE} is assigned a second time")
        else:
            value = statement.value
    if value is None and not problems:
        problems.append(f"no {VARIABLE} = {{...}} in it")
    return value


def _target(statement: ast.stmt) -> Optional[str]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def _sections(value: ast.expr, problems: List[str]) -> dict[str, ast.Dict]:
    if not isinstance(value, ast.Dict):
        problems.append(f"line {value.lineno}: {VARIABLE}: expected a dict {{'input': ..., 'output': ...}}")
        return {}
    sections: dict[str, ast.Dict] = {}
    for key, node in zip(value.keys, value.values):
        name = _string(key)
        line = (key or node).lineno
        if name not in SECTIONS:
            problems.append(f"line {line}: found the key {_shown(key)}, expected 'input' or 'output'")
        elif name in sections:
            problems.append(f"line {line}: {name!r} stands twice")
        elif not isinstance(node, ast.Dict):
            problems.append(f"line {node.lineno}: {name!r}: expected a dict {{local path: 'obs://...'}}")
        else:
            sections[name] = node
    return sections


def _routes(section: ast.Dict, name: str, problems: List[str]) -> Sequence[Route]:
    routes: List[Route] = []
    seen: dict[str, int] = {}
    for key, node in zip(section.keys, section.values):
        line = (key or node).lineno
        local = _string(key)
        if not local or not _is_text(local):
            problems.append(f"line {line}: {name}: found {_shown(key)}, expected a local path as a string")
        elif local in seen:
            problems.append(f"line {line}: {name}: {local!r} stands in line {seen[local]} already")
        elif os.path.normpath(local) in seen:
            first = seen[os.path.normpath(local)]
            problems.append(f"line {line}: {name}: {local!r} is the path of line {first} already")
        if local:
            seen.setdefault(local, line)
            seen.setdefault(os.path.normpath(local), line)
        remote = _url(node, f"line {node.lineno}: {name}: ", problems)
        if local and remote is not None:
            routes.append(Route(local, remote))
    return routes


def _url(node: ast.expr, where: str, problems: List[str]) -> Optional[ObsUrl]:
    text = _string(node)
    if text is None:
        problems.append(f"{where}found {_shown(node)}, expected 'obs://bucket/path'")
        return None
    try:
        return ObsUrl.parse(text)
    except ValueError as error:
        problems.append(f"{where}{error}")
        return None


def _is_text(text: str) -> bool:
    """False for what neither a file name nor a key can have: NUL, and half a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _string(node: Optional[ast.expr]) -> Optional[str]:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _shown(node: Optional[ast.expr]) -> str:
    return "**" if node is None else f"{ast.unparse(node):.60}"
