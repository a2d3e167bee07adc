"""Why a process ended, as far as its exit code and its last words tell. Pure."""

from __future__ import annotations

import re
from typing import List, Optional, Sequence

from ma_boot.reporting.result import WorkerExit

TAIL_LINES = 20
MOST_TRACEBACK_LINES = 30
MOST_MESSAGE_LINES = 20
_TRACEBACK = "Traceback (most recent call last):"
_FOLLOWS = re.compile(r"(During handling of the above exception|The above exception was the direct cause)")
_TORCH_PREFIX = re.compile(r"^\[rank\d+\]: ?")  # of each line of a traceback, where there is a process group
_SENTENCES = {
    139: "segmentation fault: mostly packages that do not fit together (ModelArts' guide on exit code 139)",
    134: "abort: the process, or a library of it, ended itself (ModelArts' exit code 134)",
    135: "bus error: a mapped file or /dev/shm may be full",
    132: "illegal instruction: a package built for another kind of processor",
    143: "SIGTERM came from outside of ma_boot",
    126: "the command cannot be executed",
    127: "the command, or one that it calls, does not exist",
}


def sentence(ended: WorkerExit) -> Optional[str]:
    """What stands behind the code, in a sentence; None where the code says nothing by itself.

    137, and 247 which is -9 as a launcher in between passes it on, mean out of memory to ModelArts' guide:
    here the kernel's counters decide.
    """
    if ended.code in (137, 247):
        if ended.oom is not None:
            return f"out of memory: {ended.oom}"
        return (
            "SIGKILL, not from ma_boot, and the kernel counted no kill for want of memory: look for who sent "
            "it in the job's events, and in the logs of the other nodes"
        )
    return _SENTENCES.get(ended.code)


def last_words(output: str) -> List[str]:
    """The last Python traceback of an output, with those it followed from, or else its last 20 lines."""
    lines = _lines(output)
    starts = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return lines[-TAIL_LINES:]
    end = _end_of_traceback(lines, starts[-1])
    while len(starts) > 1 and any(map(_FOLLOWS.search, lines[starts[-2] : starts[-1]])):
        starts.pop()
    found = lines[starts[-1] : end]
    if len(found) <= MOST_TRACEBACK_LINES:
        return found
    return [*found[:2], "  ...", *found[3 - MOST_TRACEBACK_LINES :]]


def last_exception(output: str) -> Optional[str]:
    """The exception of the last Python traceback of an output, as `ValueError: no such layer`."""
    lines = _lines(output)
    starts = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return None
    traceback = lines[starts[-1] + 1 : _end_of_traceback(lines, starts[-1])]
    return next((line for line in traceback if line and not line[0].isspace()), None)


def _end_of_traceback(lines: Sequence[str], start: int) -> int:
    """Frames are indented; then comes the exception, whose message may have several lines."""
    end = start + 1
    while end < len(lines) and (not lines[end] or lines[end][0].isspace()):
        end += 1
    message = end
    while end < len(lines) and lines[end].strip() and end < message + MOST_MESSAGE_LINES:
        end += 1
    return end


def _lines(text: str) -> List[str]:
    """The lines of an output, without PyTorch's own prefix of a rank; of a progress bar its last state."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    shown = (line.rstrip("\r").rpartition("\r")[2] for line in lines)
    return [_TORCH_PREFIX.sub("", line) for line in shown] if text else []
