"""A node in its sandbox as a process: hands stop signals to the node alone, and ends with its code.

Bubblewrap stays beside what it starts, and would die of a signal to their group: so it has one of its own.
It runs as `python -m ma_boot.rehearsal.sandbox.attach BWRAP-OPTIONS -- COMMAND`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Optional, Sequence

from ma_boot.processes import SignalInbox, signal_process

PROGRAM = "bwrap"
_LOOK_SECONDS = 3600.0


def run_attached(options: Sequence[str], inbox: SignalInbox) -> int:
    """Runs it to its end; returns the exit code of what runs inside."""
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
        inbox.wait(_LOOK_SECONDS)
    code = process.returncode
    return code if code >= 0 else 128 - code


def _pid_inside(read: int) -> Optional[int]:
    """The pid of what bubblewrap has started; None where it could not, of which it has said why."""
    with os.fdopen(read, encoding="utf-8") as file:
        text = file.read()
    return int(json.loads(text)["child-pid"]) if text else None


if __name__ == "__main__":
    with SignalInbox() as signals:
        sys.exit(run_attached(sys.argv[1:], signals))
