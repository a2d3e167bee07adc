"""Progress of a rank that uses CPU: its stacks, taken several times within seconds, are compared. Pure.

    calls differ                                  moves    evaluation, compilation, checkpoint
    equal, and each thread is in a wait           waits    a collective or a lock, also one that spins
    equal, and a thread is in code of its own     stays    `while True: pass`

A thread that polls is now in the poll, now in the loop around it, and a loop of two lines now on one line,
now on the other: neither is progress.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ma_boot.node.observe.rank_stacks.stacks import (
    COLLECTIVE,
    DEVICE,
    MESSAGE,
    Calls,
    Frame,
    activity,
    numbered_threads,
)

MOVES, WAITS, STAYS, UNKNOWN = "moves", "waits", "stays", ""
# Lines that a loop without progress may have.
LOOP_LINES = 3
# Calls of Python's library in which a thread waits, and its loops around them.
_WAIT_MODULES = (
    r"^(threading|queue|selectors|socket|ssl|select|subprocess|sched|multiprocessing/|concurrent/|asyncio/)"
)
# Calls of the C library, of drivers and of communication libraries that wait, by sleeping or by polling.
_WAITING = (
    r"pthread_cond|futex|sem_(timed|clock|try)?wait|^_*(sem|lll_lock)|epoll|^_*p?poll|^_*p?select|^_*recv|^_*accept"
    r"|sched_yield|nanosleep|^_*wait(4|id|pid)|time_sleep|(Stream|Ctx|Device|Event)_?[sS]ynchronize"
    r"|opal_progress|ompi_|MPI_|gloo::|nccl|hccl|uv__io_poll|acquire_lock|lock_acquire"
)
# Calls that ask whether something is done: torch's Work, MPI's and CUDA's tests.
_POLLING = (
    r"c10d::\w*Work|[iI]s_?[cC]ompleted|MPI_(Test|Iprobe)|(Event|Stream)_?Query|try_?(lock|wait|acquire)"
)
# Libraries whose calls say nothing about progress: the interpreter's own, the C library, bindings; and the
# calls by which Python enters others.
_RUNTIME = (
    r"^(python[\d.]*|lib(python[\d.]*|c|m|pthread|dl|stdc\+\+|torch_python|ffi)[.-].*|ld-.*|\[?vdso\]?"
    r"|_(ctypes|cffi_backend)\..*)$"
)
_GLUE = r"^(pybind11|std|c10d|gloo)\b|^_?Py[A-Z_]"


def compare_samples(samples: Sequence[str]) -> str:
    """Returns `MOVES`, `WAITS` or `STAYS` by the stacks of one process, oldest first; `UNKNOWN` without.

    Threads that are not in all samples are ignored.
    """
    threads = [numbered_threads(text) for text in samples]
    common = set.intersection(*(set(each) for each in threads)) if threads else set()
    if len(samples) < 2 or not common:
        return UNKNOWN
    found = [_of_thread([each[number] for each in threads]) for number in common]
    return next(kind for kind in (MOVES, STAYS, WAITS) if kind in found)


def _of_thread(samples: Sequence[Calls]) -> str:
    outer = [_without_polling(calls) for calls in samples]
    functions = {tuple((frame.name, frame.file) for frame in calls) for calls in outer}
    if len(functions) > 1 or _spread(outer) > LOOP_LINES:
        return MOVES
    if all(map(is_waiting, samples)) or any(map(_polls, samples)):
        return WAITS
    return STAYS if len({_native(calls) for calls in samples}) == 1 else MOVES


def is_waiting(calls: Calls) -> bool:
    """Returns whether a thread waits: for other ranks, the device, a lock, data or time."""
    if activity((calls,)).kind in (COLLECTIVE, DEVICE, MESSAGE):
        return True
    return any(
        re.search(_WAITING, frame.function) if frame.is_native else re.search(_WAIT_MODULES, frame.place)
        for frame in _inner(calls)
    )


def _polls(calls: Calls) -> bool:
    """Returns whether a thread asks if something is done; the loop around it need not."""
    return any(re.search(_POLLING, frame.function) for frame in _inner(calls) if frame.is_native)


def _inner(calls: Calls) -> Calls:
    """Returns the innermost call of Python, and the native ones that it has made."""
    python = next((number for number, frame in enumerate(calls) if not frame.is_native), len(calls))
    return calls[: python + 1]


def _without_polling(calls: Calls) -> tuple[Frame, ...]:
    """Returns the calls of Python without the inner ones of modules in which a thread waits."""
    python = [frame for frame in calls if not frame.is_native]
    outer = [number for number, frame in enumerate(python) if not re.search(_WAIT_MODULES, frame.place)]
    return tuple(python[outer[0] :] if outer else python)


def _spread(samples: Sequence[Sequence[Frame]]) -> int:
    """Returns the number of lines that the samples, whose functions are equal, cover in one function."""
    lines = ([frame.line for frame in position] for position in zip(*samples))
    return max((max(position) - min(position) + 1 for position in lines), default=0)


def _native(calls: Calls) -> tuple[str, ...]:
    """Returns the names of native calls that tell of work: kernels, codecs, databases."""
    return tuple(
        frame.function
        for frame in calls
        if frame.is_native and not re.match(_RUNTIME, frame.place) and not re.match(_GLUE, frame.function)
    )
