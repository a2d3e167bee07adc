"""Imports between the modules of `ma_boot` and `path_mapping`, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import ma_boot

ROOT = Path(ma_boot.__file__).parents[1]  # the wheel's, for `make release-check`
SOURCES = sorted([*ROOT.glob("ma_boot/**/*.py"), *ROOT.glob("path_mapping/**/*.py")])


class Import(NamedTuple):
    """`from module import name` (or `import module`, where `name` is empty), and its line."""

    module: str
    name: str
    line: int


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Returns all imports of a file, also those in functions and for type checkers only."""
    statements: list[Import] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            statements += [Import(alias.name, "", node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            statements += [Import(node.module or "", alias.name, node.lineno) for alias in node.names]
    return tuple(statements)


def name_of(path: Path) -> str:
    """Returns the dotted name of a module; for `__init__.py`, that of its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES: dict[str, Path] = {name_of(path): path for path in SOURCES}
ROOMS: set[str] = {name for name, path in MODULES.items() if path.name == "__init__.py"}


def room_of(module: str) -> str:
    """Returns the folder of a module; modules beside the folders of a package are rooms of their own."""
    if module in ROOMS:
        return module
    room = module.rpartition(".")[0]
    return module if room in {"ma_boot", "path_mapping"} else room


@cache
def target(used: Import) -> str:
    """Returns the imported module of this project, or an empty string for foreign modules."""
    whole = f"{used.module}.{used.name}"
    return whole if whole in MODULES else used.module if used.module in MODULES else ""


@cache
def own_imports(path: Path) -> tuple[Import, ...]:
    """Returns the imports of this project's modules."""
    return tuple(used for used in imports(path) if target(used))


def reached(module: str) -> dict[str, str]:
    """Returns this project's modules that a module needs, directly or not, each with its importer."""
    seen: dict[str, str] = {}
    todo = [module]
    while todo:
        at = todo.pop()
        for used in own_imports(MODULES[at]):
            needed = target(used)
            if needed not in seen and needed != module and needed not in {"ma_boot", "path_mapping"}:
                seen[needed] = at
                todo.append(needed)
    return seen


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the string constants of a module that are not docstrings, with their line numbers."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
