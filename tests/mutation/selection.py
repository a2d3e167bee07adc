"""Which tests can notice a change: those that call the changed function, the quickest first.

Where a line belongs to no function, or to one that is called while modules are imported, all tests can; so can those that
call nothing of the room in their own process: they start programs.
"""

from __future__ import annotations

import ast
import json
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

import pytest


class Recorder:
    """A plugin of pytest that writes to a file, for each test, its seconds and the functions of a folder that it calls.

    A test that fails because it is slow while it is watched is left out.
    """

    def __init__(self, root: Path, folder: str, file: Path) -> None:
        self._prefix = f"{root}/{folder}/"
        self._root = f"{root}/"
        self._file = file
        self._calls: Dict[str, Set[Tuple[str, int]]] = {"": set()}
        self._seconds: Dict[str, float] = {}
        self._failed: Set[str] = set()
        self._test = ""
        self._seen: Dict[CodeType, Optional[Tuple[str, int]]] = {}

    def start(self) -> None:
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def stop(self) -> None:
        threading.settrace(lambda frame, event, argument: None)
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code not in self._seen:
            ours = code.co_filename.startswith(self._prefix)
            self._seen[code] = (code.co_filename[len(self._root) :], code.co_firstlineno) if ours else None
        place = self._seen[code]
        if place is not None:
            self._calls[self._test].add(place)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._test = item.nodeid
        self._calls[item.nodeid] = set()
        try:
            return (yield)
        finally:
            self._test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self._failed.add(report.nodeid)

    def write(self) -> None:
        self.stop()
        calls = {name: sorted(places) for name, places in self._calls.items() if name not in self._failed}
        self._file.write_text(json.dumps([calls, self._seconds]), encoding="utf-8")


@dataclass(frozen=True)
class Selection:
    """What a `Recorder` has written."""

    calls: Dict[str, Set[Tuple[str, int]]]
    seconds: Dict[str, float]

    @classmethod
    def read(cls, file: Path) -> Selection:
        calls, seconds = json.loads(file.read_text(encoding="utf-8"))
        return cls({name: {(path, line) for path, line in places} for name, places in calls.items()}, seconds)

    def early(self, path: str, line: int) -> bool:
        """Whether the function of this first line is called while modules are imported and tests collected."""
        return (path, line) in self.calls[""]

    def of(self, path: str, line: Optional[int]) -> List[str]:
        """The tests that can notice a change in the function of this first line; of None all."""
        tests = [name for name in self.calls if name]
        if line is not None:
            calling = [name for name in tests if (path, line) in self.calls[name]]
            tests = [*calling, *(name for name in tests if not self.calls[name])]
        return sorted(tests, key=lambda name: self.seconds.get(name, 0.0))

    def patience(self, names: Sequence[str]) -> float:
        """Seconds after which these tests are taken for hanging."""
        return 20.0 + 5 * sum(self.seconds.get(name, 0.0) for name in names)


def outer_function(source: str, line: int) -> Optional[Tuple[str, int]]:
    """Name and first line of the outermost function around a line of its body; the latter is a decorator's, if any.

    Decorators, defaults and annotations do not belong to it.
    """
    waiting: List[ast.stmt] = list(ast.parse(source).body)
    for node in waiting:
        if isinstance(node, ast.ClassDef):
            waiting += node.body
        elif isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or 0):
            return node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return None
