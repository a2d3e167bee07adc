"""What earlier runs of the tool have found: a change that a test has noticed need not be tried again.

That holds as long as the changed file is what it was, and the test with what it uses of its own file. So the mutants of
a room cost their time once, and a run after new tests tries those that survived, and those of what was changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Dict, Iterator, List, Set, Tuple

from tests.mutation.mutants import Mutant


class Earlier:
    """The changes that were noticed, in a file: each with the test, or with none where nothing could be imported."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._file = copy.parent / "noticed.jsonl"
        self._found: Dict[str, Tuple[str, str]] = {}
        if self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                mutant, test, digest = json.loads(line)
                self._found[mutant] = test, digest

    def tests(self) -> Iterator[str]:
        """The test of each change, as often as it has noticed one."""
        return (test for test, _ in self._found.values() if test)

    def noticed(self, mutant: Mutant) -> bool:
        """Whether a test that is still the same has noticed this change."""
        test, digest = self._found.get(_key(mutant), ("", ""))
        return bool(digest) and digest == self._digest(test)

    def add(self, mutant: Mutant, test: str) -> None:
        """Keeps that this test has noticed the change; an empty name if none could be imported."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([_key(mutant), test, self._digest(test)]) + "\n")

    def _digest(self, test: str) -> str:
        if not test:
            return "not imported"
        path, _, names = test.partition("[")[0].partition("::")
        file = self._copy / path
        return _digest_of_test(file, names.rpartition("::")[2]) if file.exists() else ""


@cache
def _digest_of_test(file: Path, name: str) -> str:
    """Of the test, and of all that it uses of its file: functions, fixtures, constants."""
    named = _named(file)
    wanted, seen = [name], set()
    while wanted:
        one = wanted.pop()
        if one not in seen and one in named:
            seen.add(one)
            wanted += [word for node in named[one] for word in _words(node)]
    return (
        _sha("".join(ast.dump(node) for one in sorted(seen) for node in named[one])) if name in seen else ""
    )


@cache
def _named(file: Path) -> Dict[str, List[ast.stmt]]:
    """The statements of a test file and of its classes by the names that they bind; imports bind none of its own."""
    found: Dict[str, List[ast.stmt]] = {}
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tests = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test")]
    for node in [
        *(one for one in tree.body if one not in tests),
        *(each for one in tests for each in one.body),
    ]:
        for name in _bound(node):
            found.setdefault(name, []).append(node)
    return found


def _bound(node: ast.stmt) -> Set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
    return set()


def _words(node: ast.stmt) -> Set[str]:
    """The names that stand in a statement, those of arguments included: fixtures come by them."""
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    found |= {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
    return found | {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}


def _key(mutant: Mutant) -> str:
    return _sha(f"{mutant.path}\0{mutant.source}")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
