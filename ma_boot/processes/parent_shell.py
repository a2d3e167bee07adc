"""A shell above this process that keeps stop signals from it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import List, Optional, Tuple

_SHELLS = {"sh", "bash", "dash", "ash", "busybox", "ksh", "mksh", "zsh"}
_SIGTERM_BIT = 1 << (signal.SIGTERM - 1)


def swallowing_shell(pid: Optional[int] = None) -> Optional[str]:
    """The command of the parent of `pid` (this process) if it is a shell that runs a command or a script and
    does not catch SIGTERM; else None.

    The platform stops a container by SIGTERM to its first process. A shell that has not been replaced by its
    last command (`exec`) passes nothing on: as the first process of a container it does not even end by it.
    """
    try:
        parent, _ = _status(pid or os.getpid())
        words = _command_line(parent)
        _, caught = _status(parent)
    except (OSError, ValueError):  # it has ended, or /proc is not readable
        return None
    name = os.path.basename(words[0]).lstrip("-") if words else ""
    if name not in _SHELLS or not _runs_command(words) or caught & _SIGTERM_BIT:
        return None
    return " ".join(words)


def _runs_command(words: List[str]) -> bool:
    """Whether a shell has a command or a script, so that it is no interactive one."""
    return any(not word.startswith("-") for word in words[1:])


def _command_line(pid: int) -> List[str]:
    text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return text.rstrip("\0").split("\0") if text else []


def _status(pid: int) -> Tuple[int, int]:
    """The parent of a process, and the mask of the signals that it catches."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["PPid"]), int(fields["SigCgt"], 16)
