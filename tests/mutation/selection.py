"""Which tests can notice a change: those that run the changed statement, in their process or in one that they start.

What is done while modules are imported (constants, fields, defaults, decorators) is noticed by the tests that run a
statement which names it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple, Union

from tests.mutation.lines import Line

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


@dataclass(frozen=True)
class Recorded:
    """What one test took, and ran of the room."""

    seconds: float
    lines: Set[Line]


@dataclass(frozen=True)
class Source:
    """A file of the room, parsed."""

    path: str
    tree: ast.Module

    def function(self, line: int) -> Optional[Tuple[str, int]]:
        """Name and first line of the outermost function around a line of its body; the latter is a decorator's, if any."""
        for node in _outermost_functions(self.tree):
            if node.body[0].lineno <= line <= (node.end_lineno or 0):
                return node.name, _first(node)
        return None

    def function_lines(self, line: int) -> Set[Line]:
        """The lines of the body of the outermost function around this one."""
        return {
            (self.path, one)
            for node in _outermost_functions(self.tree)
            if node.body[0].lineno <= line <= (node.end_lineno or 0)
            for one in range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        }

    def statement(self, line: int) -> Set[Line]:
        """The lines of the innermost statement at this one; of a compound statement those of its head."""
        best = range(line, line + 1)
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.stmt, ast.excepthandler)):
                body = getattr(node, "body", None)
                last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
                lines = range(_first(node), max(last, node.lineno) + 1)
                if line in lines and (len(best) == 1 or len(lines) < len(best)):
                    best = lines
        return {(self.path, one) for one in best}

    def inside(self, line: int) -> Set[Line]:
        """All lines of the functions and classes at this line: a default, a decorator or a field is theirs."""
        return {
            (self.path, one)
            for node in _outside_functions(self.tree)
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and _first(node) <= line <= (node.end_lineno or 0)
            for one in range(node.lineno, (node.end_lineno or 0) + 1)
        }

    def bound(self, line: int) -> Set[str]:
        """The names that what stands at this line of a module or a class gives a value to."""
        found: Set[str] = set()
        for node in _outside_functions(self.tree):
            if _first(node) <= line <= (node.end_lineno or 0):
                found |= set(_targets(node))
        return found

    def naming(self, names: Set[str]) -> Set[Line]:
        """The statements that use one of the names."""
        found: Set[Line] = set()
        for node in ast.walk(self.tree):
            name = getattr(node, "id", None) or getattr(node, "attr", None)
            if (
                name in names
                and isinstance(node, (ast.Name, ast.Attribute))
                and isinstance(node.ctx, ast.Load)
            ):
                found |= self.statement(node.lineno)
        return found


@dataclass(frozen=True)
class Selection:
    """The sources of a room, what runs while they are imported, and what each of its tests runs."""

    sources: Dict[str, Source]
    imported: Set[Line]
    tests: Dict[str, Recorded] = field(default_factory=dict)
    noticed: Counter[str] = field(default_factory=Counter)  # how many changes a test has noticed so far

    def function(self, path: str, line: int) -> Optional[Tuple[str, int]]:
        """The function whose code can be exchanged: that around the line, unless importing has called it.

        What a call made while importing, such as a function in it, would keep its code.
        """
        source = self.sources[path]
        return None if source.function_lines(line) & self.imported else source.function(line)

    def of(self, path: str, line: int) -> List[str]:
        """The tests that can notice a change at this line, those first that are quick and look at little."""
        source = self.sources[path]
        lines = source.statement(line)
        if self.function(path, line) is None:
            lines = (self._concerned(source, line) | source.inside(line) | lines) - self.imported
        found = self._running(lines)
        if self.function(path, line) is None:
            found = self._with_those_that_name(source.bound(line), found) or self._running(None, path)
        return found

    def seconds(self, test: str) -> float:
        """What the test took while it was watched."""
        return self.tests[test].seconds

    def _with_those_that_name(self, names: Set[str], found: List[str]) -> List[str]:
        """These tests and those of files that use one of the names: a class may be made without a line of it."""
        word = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b") if names else None
        files = {name.partition("::")[0] for name in self.tests}
        using = {file for file in files if word and word.search(Path(file).read_text(encoding="utf-8"))}
        more = {name for name in self.tests if name.partition("::")[0] in using}
        return sorted(more.union(found), key=self._effort)

    def _running(self, lines: Optional[Set[Line]], path: str = "") -> List[str]:
        tests = [
            name
            for name, recorded in self.tests.items()
            if (any(one[0] == path for one in recorded.lines) if lines is None else recorded.lines & lines)
        ]
        return sorted(tests, key=self._effort)

    def _effort(self, test: str) -> float:
        """Small for a test that is quick and looks at little, or has noticed much: it is more likely to notice."""
        return self.seconds(test) * max(1, len(self.tests[test].lines)) / (1 + self.noticed[test]) ** 2

    def _concerned(self, source: Source, line: int) -> Set[Line]:
        names = source.bound(line)
        function = source.function(line)
        names |= {function[0]} if function else set()
        found: Set[Line] = set()
        while True:
            lines = {one for each in self.sources.values() for one in each.naming(names)}
            more = {name for path, one in lines for name in self.sources[path].bound(one)}
            if lines == found and more <= names:
                return found
            found, names = lines, names | more


def parsed(root: Path, folder: str) -> Dict[str, Source]:
    """The sources of a folder, by their paths below the root."""
    return {
        (path := str(file.relative_to(root))): Source(path, ast.parse(file.read_text(encoding="utf-8")))
        for file in sorted((root / folder).rglob("*.py"))
    }


def _first(node: Union[ast.stmt, ast.excepthandler]) -> int:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([node.lineno, *(one.lineno for one in decorators)])


def _outside_functions(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a module and of its classes."""
    waiting: List[ast.stmt] = list(tree.body)
    for node in waiting:
        yield node
        if isinstance(node, (ast.ClassDef, ast.If, ast.Try)):
            waiting += node.body


def _outermost_functions(tree: ast.Module) -> Iterator[Function]:
    return (
        node for node in _outside_functions(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def _targets(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))
