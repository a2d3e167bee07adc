"""Imports everything that the toolkit imports, reads a path mapping, and prints the failures.

`ma_boot image check` runs this source with the toolkit's python in an image, so it must not import ma_boot at
the top.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("ma_boot", "path_mapping")
# Modules that a toolkit need not have: the training's Python has mindspore, and the extra gpu has pynvml.
_NOT_NEEDED = {"mindspore", "pynvml"}
_MAPPINGS = {
    "mapping.py": "PATH_MAPPING_CONFIG = {'input': {'data': 'obs://bucket/data'}}",
    "mapping.yaml": "input:\n  data: obs://bucket/data\n",
    "mapping.json": '{"input": {"data": "obs://bucket/data"}}',
}


class Imported(NamedTuple):
    """`from module import name`, or `import module` with no name; `optional` where a failure is caught."""

    module: str
    name: str
    optional: bool = False


def imports_of(file: Path) -> Iterator[Imported]:
    """Returns the absolute imports of a source file at any level, without those for type checkers."""
    return _imports(ast.parse(file.read_bytes()), False)


def _imports(node: ast.AST, optional: bool) -> Iterator[Imported]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Imported(alias.name, "", optional)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield Imported(node.module or "", alias.name, optional)
    elif isinstance(node, ast.Try) and any("ImportError" in ast.dump(handler) for handler in node.handlers):
        optional = True
    only_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    for child in () if only_for_types else ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler)):
            yield from _imports(child, optional)


def failures() -> Iterator[str]:
    """Returns the modules that this toolkit cannot import, with reasons; extras may be missing."""
    users: dict[Imported, Path] = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for file in sorted(Path(str(spec and spec.origin)).parent.rglob("*.py")):
            users.update(dict.fromkeys(imports_of(file), file))
    extras = {needed.module.partition(".")[0] for needed in users if needed.optional} | _NOT_NEEDED
    reasons: dict[str, Path] = {}
    for needed, user in sorted(users.items()):
        if needed.module.partition(".")[0] not in extras:
            try:
                _load(needed)
            except Exception as error:  # whatever a module that is loaded raises
                reasons.setdefault(f"{type(error).__name__}: {error}", user)
    yield from (f"{reason} (for {user})" for reason, user in reasons.items())
    yield from _failed_mappings()


def _load(needed: Imported) -> None:
    module = importlib.import_module(needed.module)
    if needed.name and needed.name != "*" and not hasattr(module, needed.name):
        importlib.import_module(f"{needed.module}.{needed.name}")


def _failed_mappings() -> Iterator[str]:
    for name, text in _MAPPINGS.items():
        try:
            from path_mapping.mapping.mapping_file import parse_mapping

            parse_mapping(text, name)
        except Exception as error:
            yield f"{type(error).__name__}: {error} (reading a {name})"


if __name__ == "__main__":
    failed = "; ".join(failures())
    sys.exit(failed or None)
