"""What earlier runs of the tool have found: a test that noticed a change once need not be run again for it.

That holds as long as the changed file and the file of that test are what they were; the mutants of a room then cost
their time once, and a run after new tests tries the survivors only.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Dict, Tuple

from tests.mutation.mutants import Mutant


class Earlier:
    """The changes that were noticed, in a file: each with the file of the test, empty for none, as it was then."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy
        self._file = copy.parent / "noticed.jsonl"
        self._found: Dict[str, Tuple[str, str]] = {}
        if self._file.exists():
            for line in self._file.read_text(encoding="utf-8").splitlines():
                mutant, test, digest = json.loads(line)
                self._found[mutant] = test, digest

    def noticed(self, mutant: Mutant) -> bool:
        """Whether a test that is still the same has noticed this change."""
        test, digest = self._found.get(_key(mutant), ("", ""))
        return bool(digest) and digest == self._digest(test)

    def add(self, mutant: Mutant, test: str) -> None:
        """Keeps that the test of this file has noticed the change; empty if it could not even be imported."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([_key(mutant), test, self._digest(test)]) + "\n")

    def _digest(self, test: str) -> str:
        if not test:
            return "imported"
        file = self._copy / test
        return _sha(file.read_text(encoding="utf-8")) if file.exists() else ""


def _key(mutant: Mutant) -> str:
    return _sha(f"{mutant.path}\0{mutant.source}")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
