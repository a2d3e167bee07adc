"""Who imports whom in `ma_boot` and `path_mapping`, read from the sources."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Dict, List, NamedTuple, Set, Tuple

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
def imports(path: Path) -> Tuple[Import, ...]:
    """Every import of a file, wherever it stands: those for type checkers only, too."""
    statements: List[Import] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            statements += [Import(alias.name, "", node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            statements += [Import(node.module or "", alias.name, node.lineno) for alias in node.names]
    return tuple(statements)


def name_of(path: Path) -> str:
    """The dotted name of a module: that of the folder for its `__init__.py`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES: Dict[str, Path] = {name_of(path): path for path in SOURCES}
ROOMS: Set[str] = {name for name, path in MODULES.items() if path.name == "__init__.py"}


def room_of(module: str) -> str:
    """The folder of a module; modules beside the folders of a package are rooms of their own."""
    if module in ROOMS:
        return module
    room = module.rpartition(".")[0]
    return module if room in {"ma_boot", "path_mapping"} else room


@cache
def exports(room: str) -> Dict[str, str]:
    """The names that a room's `__init__.py` hands on, each with the module that has it, or is it."""
    return {
        used.name: f"{room}.{used.name}" if used.module == room else used.module
        for used in imports(MODULES[room])
        if used.module in MODULES
    }


@cache
def target(used: Import) -> str:
    """The module of ours that an import loads; empty where it is somebody else's.

    An exported name hides the module of the same name: `from path_mapping.stores import open_store` is the function.
    """
    if used.module in ROOMS and used.name in exports(used.module):
        return used.module
    whole = f"{used.module}.{used.name}"
    return whole if whole in MODULES else used.module if used.module in MODULES else ""


@cache
def definition(used: Import) -> str:
    """The module that defines what an import names: through the exports of a room, if it is one's."""
    at = target(used)
    if at in ROOMS and used.name in exports(at):
        exporter = exports(at)[used.name]
        return definition(Import(exporter, used.name, used.line)) if exporter in ROOMS else exporter
    return at


@cache
def own_imports(path: Path) -> Tuple[Import, ...]:
    """The imports of our own modules."""
    return tuple(used for used in imports(path) if target(used))


def reached(module: str) -> Dict[str, str]:
    """All modules of ours that a module needs, directly or not, each with the one that imports it."""
    seen: Dict[str, str] = {}
    todo = [module]
    while todo:
        at = todo.pop()
        for used in own_imports(MODULES[at]):
            needed = definition(used)
            if needed not in seen and needed != module and needed not in {"ma_boot", "path_mapping"}:
                seen[needed] = at
                todo.append(needed)
    return seen
