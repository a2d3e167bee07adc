"""Runs a node in its sandbox, forwards stop signals to the node alone, and exits with its code.

Bubblewrap stays the parent of the node, and would die of a signal to their process group: so it gets a group
of its own. It runs as `python -m ma_boot.rehearsal.sandbox.attach BWRAP-OPTIONS -- COMMAND`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Optional, Sequence

from ma_boot.processes import SignalInbox, signal_process
from ma_boot.rehearsal.sandbox.bubblewrap import PROGRAM

_WAIT_SECONDS = 3600.0


def run_attached(options: Sequence[str], inbox: SignalInbox) -> int:
    """Runs bubblewrap to its end; returns the exit code of the command inside."""
    read, write = os.pipe()
    argv = [PROGRAM, "--die-with-parent", "--info-fd", str(write), *options]
    process = subprocess.Popen(argv, pass_fds=(write,), start_new_session=True)
    os.close(write)
    inside = _pid_inside(read)
    heard = 0
    while process.poll() is None:
        for signum in inbox.stops[heard:]:
            heard += 1
            signal_process(inside or process.pid, signum)
        inbox.wait(_WAIT_SECONDS)
    code = process.returncode
    return code if code >= 0 else 128 - code


def _pid_inside(read: int) -> Optional[int]:
    """The PID of the command inside; None if bubblewrap could not start it, and has reported why."""
    with os.fdopen(read, encoding="utf-8") as file:
        text = file.read()
    return int(json.loads(text)["child-pid"]) if text else None


if __name__ == "__main__":
    with SignalInbox() as signals:
        sys.exit(run_attached(sys.argv[1:], signals))
