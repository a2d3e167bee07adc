"""Which lines of a folder run: in this process, and in the programs that it starts (standard library only: see `tree`).

A process writes each line once to the file CHILDREN beside the copy, if it is there; whoever runs the tests reads what
came with each.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, Callable, Dict, Optional, Set, Tuple

CHILDREN = "children"
Line = Tuple[str, int]


class Lines:
    """Calls `found` with each line below `root/folder`, once."""

    def __init__(self, root: str, folder: str, found: Callable[[str, int], None]) -> None:
        self._root = root + "/"
        self._prefix = f"{root}/{folder}/"
        self._found = found
        self._paths: Dict[CodeType, Optional[str]] = {}
        self._missing: Dict[CodeType, Set[int]] = {}

    def start(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> None:
        threading.settrace(lambda frame, event, argument: None)
        sys.settrace(None)

    def forget(self) -> None:
        """Every line is found once more."""
        self._missing.clear()

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if code not in self._paths:
            name = code.co_filename
            self._paths[code] = name[len(self._root) :] if name.startswith(self._prefix) else None
        path = self._paths[code]
        if path is None:
            return None
        missing = self._missing.get(code)
        if missing is None:
            missing = self._missing[code] = {line for _, _, line in code.co_lines() if line is not None}
        if not missing:
            return None

        def local(frame: FrameType, event: str, argument: object) -> Any:
            line = frame.f_lineno
            if event == "line" and line in missing:
                missing.discard(line)
                self._found(path, line)
            return local if missing else None

        return local


def record_program(copy: str, folder: str) -> None:
    """For a program that a test starts, before its first line."""
    file = os.open(os.path.join(os.path.dirname(copy), CHILDREN), os.O_WRONLY | os.O_APPEND)
    os.set_inheritable(file, False)
    Lines(copy, folder, lambda path, line: _write(file, f"{path}:{line}\n")).start()


def _write(file: int, text: str) -> None:
    with suppress(OSError):  # the program has closed what it did not open
        os.write(file, text.encode())
