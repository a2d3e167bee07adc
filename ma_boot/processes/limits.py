"""Why no further process or thread can be started: which limits there are, and how much of them is used."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from typing import Iterator, Optional

from ma_boot.errors import LimitReached
from ma_boot.processes.control_group import file_text, process_groups
from ma_boot.processes.orphan_guard import process_stats

_NO_THREAD = "can't start new thread"  # of CPython, whatever pthread_create(3) says
_NEEDED = (
    "every process and every thread counts: each rank with what its libraries start, often a thread for "
    "each core (OMP_NUM_THREADS), and some 5 of ma_boot, more while files are moved: raise the limit, or "
    "start fewer"
)


def limit_reached(error: Optional[BaseException]) -> Optional[LimitReached]:
    """What an error means if it is that of a process or thread at a limit, or of a file; else None."""
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return no_more_processes("cannot start a thread")
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.EMFILE, errno.ENFILE):
        open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return LimitReached(
            f"{error.strerror}: ulimit -n is {open_files}: raise it, or start fewer processes"
        )
    if error.errno in (errno.EAGAIN, errno.ENOMEM) and _file_of(error) == subprocess.__file__:
        return no_more_processes(f"cannot start a process: {error.strerror}")
    return None


def no_more_processes(what: str) -> LimitReached:
    """The error at the limit of processes and threads; `what` could not be done."""
    return LimitReached(f"{what}: {'; '.join(_limits()) or 'no limit is to be seen here'}; {_NEEDED}")


def _file_of(error: BaseException) -> str:
    """The source file that raised the error."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at.tb_frame.f_code.co_filename if at is not None else ""


def _limits() -> Iterator[str]:
    """The limits of processes and threads, and of the memory for a thread, in words."""
    of_user, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if of_user != resource.RLIM_INFINITY and os.geteuid() != 0:  # root is exempt
        yield f"ulimit -u is {of_user}, and uid {os.getuid()} has {_own_threads()} in this container"
    for group in process_groups():
        limit, used = (file_text(group / name).strip() for name in ("pids.max", "pids.current"))
        if limit.isdecimal():
            yield f"pids.max of this container is {limit}, and {used} are in use ({group})"
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if stack == resource.RLIM_INFINITY or stack > 1 << 30:
        size = "unlimited" if stack == resource.RLIM_INFINITY else stack >> 10
        yield f"ulimit -s is {size}: each thread needs memory for its stack"


def _own_threads() -> int:
    """The threads of this user's processes, as far as they are to be seen."""
    found = 0
    for pid, stat in process_stats().items():
        try:
            found += int(stat[17]) if os.stat(f"/proc/{pid}").st_uid == os.geteuid() else 0
        except OSError:  # it has ended
            continue
    return found
