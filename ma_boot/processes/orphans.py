"""The duties of an init: processes whose parent ended become children of ma_boot, and are reaped."""

from __future__ import annotations

import os
from typing import Collection, List

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_WNOTHREAD = 0x20000000  # linux/wait.h: only children of this thread, not those of a transfer's


def adopt_orphans() -> None:
    """From now on what loses its parent below this process becomes its child; as PID 1 it does anyway."""
    import ctypes  # used once, and not by every command

    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def reap_orphans(own: Collection[int]) -> List[int]:
    """Takes the ends of adopted processes; the pids of `own` are left to whoever started them.

    Call it from the main thread, after `own` were asked: the kernel shows one ended child at a time.
    """
    reaped: List[int] = []
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WNOTHREAD)
        except ChildProcessError:
            return reaped
        if ended is None or ended.si_pid in own:
            return reaped
        os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)
        reaped.append(ended.si_pid)
