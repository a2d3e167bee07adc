"""Where a process of Python stands: by py-spy where it is installed, else by its own faulthandler."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

ASK_SECONDS = 20.0
_SIGUSR1 = 1 << (signal.SIGUSR1 - 1)


def stack_of(pid: int, path: str) -> str:
    """The stacks of the process, or why there are none; py-spy is looked for on `path`.

    faulthandler prints into the process's own output. SIGUSR1 is sent only to a process that catches it:
    it ends any other.
    """
    spy = shutil.which("py-spy", path=path)
    if spy is not None:
        try:
            done = subprocess.run(
                [spy, "dump", "--pid", str(pid)],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ASK_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"py-spy did not answer within {ASK_SECONDS:.0f} s"
        if done.returncode == 0:
            return done.stdout
    if _catches_sigusr1(pid):
        os.kill(pid, signal.SIGUSR1)
        return "asked by SIGUSR1, its answer is in its own output"
    refused = f"py-spy says: {done.stderr.strip()}; " if spy is not None else "py-spy is not installed; "
    return refused + "the script has no faulthandler.register(signal.SIGUSR1) either"


def _catches_sigusr1(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            caught = next((line.split()[1] for line in file if line.startswith("SigCgt:")), "0")
    except OSError:
        return False
    return bool(int(caught, 16) & _SIGUSR1)
