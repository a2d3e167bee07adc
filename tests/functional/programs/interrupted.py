"""What the trainings have in common that are interrupted on purpose: their arguments, what they say, a failure of their own.

    STEPS PAUSE [--raise RANK:STEP]

PAUSE is in seconds, after each step. With `--raise`, this rank raises in this step of the job's first attempt.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path("checkpoints")


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("steps", type=int)
    parser.add_argument("pause", type=float)
    parser.add_argument("--raise", dest="raises", default="")
    return parser.parse_args()


def raise_if_planted(planted: str, rank: int, step: int) -> None:
    """Raises where `--raise` says so."""
    if os.environ.get("MABOOT_ATTEMPT") == "1" and planted == f"{rank}:{step}":
        raise ValueError(f"planted in step {step}")


def say(what: str, rank: int, **facts: object) -> None:
    """One write: processes share their output. The time is that of the events of ma_boot on the same machine."""
    known = {
        "rank": rank,
        "pid": os.getpid(),
        "attempt": os.environ.get("MABOOT_ATTEMPT"),
        "at": time.monotonic(),
    }
    sys.stdout.write(f"{what} {json.dumps({**known, **facts})}\n")
    sys.stdout.flush()


def say_restored(rank: int) -> str:
    """Says what ma_boot has restored, and which files there are; returns the step, empty for none."""
    step, source = os.environ.get("MABOOT_RESTORED_STEP"), os.environ.get("MABOOT_RESTORED_FROM")
    say("restored", rank, step=step, source=source, files=_contents())
    return step or ""


def _contents() -> dict[str, str]:
    """The digest of each file that is there, by its path."""
    files = [path for path in sorted(ROOT.rglob("*")) if path.is_file() and ".ma_boot" not in path.parts]
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
