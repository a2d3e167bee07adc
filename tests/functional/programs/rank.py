"""A rank for tests: does what its arguments say, one word after the other; `WORDS` has the words."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

RANK = os.environ.get("RANK_ID") or os.environ.get("MS_NODE_ID") or "-"


def write(file: str, text: str) -> None:
    """Writes a file; RANK in its name is the rank."""
    target = Path(file.replace("RANK", RANK))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def wait_for(file: str) -> None:
    """Returns once the file is there; the test's own deadline ends it otherwise."""
    while not Path(file).exists():
        time.sleep(0.01)


def meet(file: str, count: str) -> None:
    """Returns once so many ranks came here."""
    marker = Path(f"{file}.{RANK}")
    marker.write_text("")
    while len(list(marker.parent.glob(f"{marker.stem}.*"))) < int(count):
        time.sleep(0.01)


def grandchild(file: str) -> None:
    """Leaves a process behind that holds standard output."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(f"{file}.{RANK}").write_text(str(child.pid))


def daemon(file: str) -> None:
    """Leaves a process in a session of its own behind, which holds standard output too."""
    program = "import os, sys, time; print(os.getppid(), flush=True) or time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
    Path(f"{file}.{RANK}").write_text(str(child.pid))


def stranger(file: str) -> None:
    """Leaves a process behind in a session of its own, without our environment and without a parent."""
    program = (
        "import os, sys, time; read, write = os.pipe(); os.fork() and (os.read(read, 1), os._exit(0)); "
        "os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); os.write(write, b'.'); time.sleep(600)"
    )
    subprocess.run([sys.executable, "-c", program, f"{file}.{RANK}"], env={}, check=True)


def orphans(count: str) -> None:
    """Starts processes whose parents end at once, and waits until each printed who is its parent then."""
    read, write = os.pipe()
    for _ in range(int(count)):
        if os.fork() == 0:
            between = os.getpid()
            if os.fork() == 0:
                while os.getppid() == between:
                    time.sleep(0.001)
                print(f"orphan of {os.getppid()}", flush=True)
            os._exit(0)
        os.wait()
    os.close(write)
    os.read(read, 1)  # ends when the last of them did


def zombies() -> None:
    """Prints how many ended processes ma_boot has not taken, once those of a moment ago could be."""
    until = time.monotonic() + 5
    while True:
        ended = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] == "Z" and fields[1] == str(os.getppid()):
                ended.append(stat.parent.name)
        if not ended or time.monotonic() > until:
            break
        time.sleep(0.01)
    print(f"zombies: {len(ended)}", flush=True)


def once(file: str, code: str) -> None:
    """Ends this rank, the first time that it comes here."""
    marker = Path(f"{file}.{RANK}")
    if not marker.exists():
        marker.write_text("")
        sys.exit(int(code))


def lines(count: str) -> None:
    """Prints numbered lines as fast as it can."""
    text = "x" * 80
    for number in range(int(count)):
        sys.stdout.write(f"{RANK} {number} {text}\n")
    sys.stdout.flush()


def wide(megabytes: str) -> None:
    """Prints one line of so many megabytes."""
    for _ in range(int(megabytes)):
        sys.stdout.write("y" * (1 << 20))
    print(flush=True)


def crash(rank: str) -> None:
    """Ends this rank by a segmentation fault."""
    if rank == RANK:
        import ctypes

        ctypes.string_at(0)


def fail(rank: str, *message: str) -> None:
    """Raises in this rank."""
    if rank == RANK:
        raise ValueError(":".join(message))


def eat(rank: str) -> None:
    """Uses memory until the kernel says no."""
    kept = []
    while rank == RANK:
        kept.append(b"z" * (1 << 20))


def end(code: str, rank: str) -> None:
    """Ends this rank, or all of them."""
    if rank in (RANK, "all"):
        sys.exit(int(code))


def raw() -> None:
    """Prints what is not UTF-8, and no newline at the end."""
    sys.stdout.buffer.write(b"caf\xe9 \xff\xfe\nlast line without an end")
    sys.stdout.flush()


WORDS: dict[str, Callable[..., object]] = {
    "print-environment": lambda: print(json.dumps(dict(os.environ)), flush=True),
    "print-arguments": lambda: print(json.dumps(sys.argv), flush=True),
    "print": lambda text: print(text, flush=True),
    "write": write,
    "sleep": lambda: time.sleep(600),
    "deaf": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "exit": end,
    "kill": lambda rank: os.kill(os.getpid(), signal.SIGKILL) if rank == RANK else None,
    "ready": lambda file: Path(f"{file}.{RANK}").write_text(str(os.getpid())),
    "await": wait_for,
    "meet": meet,
    "grandchild": grandchild,
    "daemon": daemon,
    "stranger": stranger,
    "orphans": orphans,
    "zombies": zombies,
    "once": once,
    "lines": lines,
    "wide": wide,
    "crash": crash,
    "fail": fail,
    "eat": eat,
    "print-limits": lambda: print(resource.getrlimit(resource.RLIMIT_CORE)[0], flush=True),
    "print-cores": lambda: print(sorted(os.sched_getaffinity(0)), flush=True),
    "dump-on-usr1": lambda: faulthandler.register(signal.SIGUSR1),
    "raw": raw,
}

for argument in sys.argv[1:]:
    if not argument.startswith("--"):  # the platform appends such
        word, *values = argument.split(":")
        WORDS[word](*values)
