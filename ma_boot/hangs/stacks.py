"""Reads the stacks of a Python process as py-spy or faulthandler print them. Pure.

Both print the innermost frame first. py-spy's line is `function (torch/distributed/c10d.py:12)`, and
`function (libc.so.6)` for a native frame; that of faulthandler is `File "/.../c10d.py", line 12 in function`.
"""

from __future__ import annotations

import re
from typing import List, NamedTuple, Tuple

_THREAD = r'^Thread \S+(?: \([\w+]+\))?(?:: "(?P<name>.*)")?$'
_DUMPED = r"^(?:Current thread|Thread) 0x[0-9a-f]{1,16}\b.*\(most recent call first\):$"
_SPY_FRAME = r"^ +(?P<function>\S.*) \((?P<place>[^()]+)\)$"
_DUMPED_FRAME = r'^ +File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<function>.*)$'
_LIBRARY_ROOT = r"^.*/(?:site-packages|dist-packages|python3(?:\.\d+)?)/"
_NATIVE = r"^[^:]*$|\.(c|cc|cpp|cxx|h|hpp|cu|pyx|rs):"
_HEAD = r"\A(?:Process \d+:.*\n|Python v.*\n|\n)+"
_MAIN = "MainThread"


class Frame(NamedTuple):
    """A call: `place` is `file:line`, or only a library for native code."""

    function: str
    place: str

    @property
    def is_native(self) -> bool:
        """Whether it is no Python code."""
        return re.search(_NATIVE, self.place) is not None

    @property
    def name(self) -> str:
        """The function without its class, which py-spy adds since Python 3.11."""
        return self.function.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.function} ({self.place})"


class ThreadStack(NamedTuple):
    """One thread's calls, the innermost first."""

    name: str
    frames: Tuple[Frame, ...]


def threads_of(text: str) -> Tuple[ThreadStack, ...]:
    """The threads of one process, its main thread first; nothing for a text that has none."""
    threads: List[Tuple[str, List[Frame]]] = []
    for line in text.splitlines():
        head = re.match(_DUMPED, line) or re.match(_THREAD, line)
        if head:
            threads.append((head.groupdict().get("name") or "", []))
            continue
        frame = _frame(line) if threads else None
        if frame is not None:
            threads[-1][1].append(frame)
    found = [ThreadStack(name, tuple(frames)) for name, frames in threads if frames]
    return tuple(sorted(found, key=lambda thread: not _is_main(thread)))


def _frame(line: str) -> Frame | None:
    dumped = re.match(_DUMPED_FRAME, line)
    if dumped:
        file = re.sub(_LIBRARY_ROOT, "", dumped.group("file"))
        return Frame(dumped.group("function"), f"{file}:{dumped.group('line')}")
    shown = re.match(_SPY_FRAME, line)
    return Frame(shown.group("function"), shown.group("place")) if shown else None


def _is_main(thread: ThreadStack) -> bool:
    outermost = [frame for frame in thread.frames if not frame.is_native][-1:]
    return thread.name == _MAIN or (not thread.name and any(one.function == "<module>" for one in outermost))


def without_head(text: str) -> str:
    """The stacks without py-spy's lines on the process, which differ in each rank."""
    return re.sub(_HEAD, "", text).strip("\n")


def last_dump(output: str) -> str:
    """The last stacks that faulthandler has printed into an output; empty if there are none."""
    lines = output.splitlines()
    dumped = [number for number, line in enumerate(lines) if re.match(_DUMPED, line)]
    if not dumped:
        return ""
    start = dumped[-1]
    while start > 0 and (
        re.match(_DUMPED_FRAME, lines[start - 1])
        or re.match(_DUMPED, lines[start - 1])
        or not lines[start - 1]
    ):
        start -= 1
    end = dumped[-1] + 1
    while end < len(lines) and re.match(_DUMPED_FRAME, lines[end]):
        end += 1
    return "\n".join(line for line in lines[start:end] if line)
