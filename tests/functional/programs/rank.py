"""A rank for tests: does what its arguments say, one word after the other; `WORDS` has the words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Dict

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


def grandchild(file: str) -> None:
    """Leaves a process behind that holds standard output."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(f"{file}.{RANK}").write_text(str(child.pid))


def end(code: str, rank: str) -> None:
    """Ends this rank, or all of them."""
    if rank in (RANK, "all"):
        sys.exit(int(code))


def raw() -> None:
    """Prints what is not UTF-8, and no newline at the end."""
    sys.stdout.buffer.write(b"caf\xe9 \xff\xfe\nlast line without an end")
    sys.stdout.flush()


WORDS: Dict[str, Callable[..., object]] = {
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
    "grandchild": grandchild,
    "raw": raw,
}

for argument in sys.argv[1:]:
    if not argument.startswith("--"):  # the platform appends such
        word, *values = argument.split(":")
        WORDS[word](*values)
