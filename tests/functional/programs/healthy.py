"""A healthy rank that shows as little life as the way of working allows: `healthy.py TIMEOUT WAY,WAY,... SEED`.

TIMEOUT is the hang watch's, in seconds; all ways go on for ever.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

RANK = int(os.environ["RANK_ID"])
TIMEOUT = float(sys.argv[1])
WAY = sys.argv[2].split(",")[RANK]
CHANCE = random.Random(f"{sys.argv[3]} {RANK}")
WORK = """
import sys, time
share, end = float(sys.argv[1]), float(sys.argv[2])
while time.process_time() < end:
    until = time.process_time() + share * 0.2
    while time.process_time() < until:
        pass
    time.sleep((1 - share) * 0.2)
"""  # what it works, and not when it ends, is the same on a busy machine


def work(seconds: float = 1e6) -> list[str]:
    """The command of a process that uses a part of a core, on a machine that is not busy for so long."""
    share = CHANCE.uniform(0.2, 0.4)
    return [sys.executable, "-S", "-c", WORK, f"{share}", f"{share * seconds}"]


def session() -> None:
    """Its child computes, in a session of its own."""
    subprocess.Popen(work(), start_new_session=True).wait()


def daemon() -> None:
    """What computes has lost its parent, and is in a session of its own, before anybody has seen it."""
    program = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
    subprocess.run([sys.executable, "-c", program, *work()], check=True)
    time.sleep(1e6)


def reaped() -> None:
    """Short children, each of which it reaps."""
    while True:
        subprocess.run(work(CHANCE.uniform(0.2, 0.6)), check=True)


def forgotten() -> None:
    """Children that the kernel reaps at once, so that nobody inherits their CPU time."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        subprocess.Popen(work(CHANCE.uniform(0.6, 1.2))).wait()


def card() -> None:
    """It sleeps in a call of the driver, while its card computes."""
    time.sleep(1e6)


def polls() -> None:
    """It polls, and works for a moment every now and then."""
    while True:
        until = time.monotonic() + TIMEOUT * CHANCE.uniform(0.6, 0.85)
        while time.monotonic() < until:
            time.sleep(0.02)
        until = time.process_time() + 0.14
        while time.process_time() < until:
            pass


def checkpoint() -> None:
    """It writes a large file to a slow disk."""
    with open(f"checkpoint.{RANK}", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 18))
            file.seek(file.tell() % (1 << 22))
            time.sleep(CHANCE.uniform(0.3, 0.6))


def loader() -> None:
    """It waits for its data loader, a child that reads slowly."""
    data = Path(f"data.{RANK}")
    data.write_bytes(bytes(1 << 20))
    program = (
        "import sys, time\nwhile True:\n  file = open(sys.argv[1], 'rb', buffering=0)\n"
        "  while file.read(1 << 17): time.sleep(0.3)\n"
    )
    subprocess.Popen([sys.executable, "-S", "-c", program, str(data)], start_new_session=True).wait()


def prints() -> None:
    """It prints a line every now and then."""
    while True:
        print("step", flush=True)
        time.sleep(TIMEOUT * CHANCE.uniform(0.5, 0.8))


def hangs() -> None:
    """It does nothing any more."""
    time.sleep(1e6)


if __name__ == "__main__":
    globals()[WAY]()
