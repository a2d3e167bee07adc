"""A training program for containers; its first argument says what it does. Runs on any Python 3."""

import importlib
import os
import signal
import subprocess
import sys
import time
from typing import Callable, Dict


def leave(code: str) -> None:
    """Writes to the home, looks for the rank table and exits with a code."""
    rank = os.environ["RANK_ID"]
    with open(os.path.expanduser(f"~/written-by-{rank}"), "w") as file:
        file.write("x")
    if not os.path.isfile(os.environ["RANK_TABLE_FILE"]):
        sys.exit("no rank table")
    print("rank", rank, "of", os.environ["RANK_SIZE"], "uid", os.getuid(), "argv", sys.argv[3:], flush=True)
    sys.exit(int(code))


def wait_for_signal() -> None:
    """Waits for SIGTERM and reports it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM])
    print("asked to stop", flush=True)


def die(signum: str) -> None:
    """Kills itself with a signal."""
    os.kill(os.getpid(), int(signum))
    time.sleep(60)


def leave_orphans(count: str) -> None:
    """Creates orphans; exits with 9 if PID 1 leaves one of them as a zombie."""
    orphan = 'import os; pid = os.fork()\nif pid: print(pid, flush=True)\nelse: __import__("time").sleep(0.3)'
    pids = [
        int(subprocess.run([sys.executable, "-c", orphan], stdout=subprocess.PIPE, check=True).stdout)
        for _ in range(int(count))
    ]
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
            sys.exit(0)
        time.sleep(0.05)
    sys.exit(9)


def load(name: str) -> None:
    """Prints where a package comes from."""
    print("loaded", name, "from", importlib.import_module(name).__file__, flush=True)


if __name__ == "__main__":
    actions: Dict[str, Callable[..., None]] = {
        "leave": leave,
        "wait": wait_for_signal,
        "die": die,
        "orphans": leave_orphans,
        "load": load,
    }
    actions[sys.argv[1]](*sys.argv[2:3])
