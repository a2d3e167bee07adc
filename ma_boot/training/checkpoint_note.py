"""Checkpoints for training code: what was restored, and what is complete where files cannot tell."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

SPOOL = "MABOOT_CHECKPOINT_SPOOL"  # the directory where ma_boot reads; not set: nobody listens
STEP = "MABOOT_RESTORED_STEP"  # of the first output that has restored one
ALL = "MABOOT_RESTORED"  # JSON: a list of all outputs with checkpoints, each with directory, step and source
_RANKS = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "MS_NODE_ID")
_LONGEST_TICK = 90  # milliseconds between two times that a file system can tell apart
_printed: list[str] = []


def restored_step(directory: str | None = None) -> str | None:
    """The step that is in place, as the names of its files have it; None for the beginning.

    `directory` is that of an output with checkpoints, or one below it; without it the first output that has
    restored a step is meant. Raises `ValueError` for a directory that is in no output with checkpoints: to
    begin anew by mistake would cost more. Without ma_boot it is always None.
    """
    if directory is None:
        return os.environ.get(STEP) or None
    restored = os.environ.get(ALL)
    if not restored:
        return None
    outputs = {os.path.realpath(output["directory"]): output["step"] for output in json.loads(restored)}
    wanted = os.path.realpath(directory)
    around = [output for output in outputs if wanted == output or wanted.startswith(os.path.join(output, ""))]
    if not around:
        known = ", ".join(sorted(outputs))
        raise ValueError(f"{wanted} is in no output with checkpoints; those of this job are: {known}")
    return outputs[max(around, key=len)] or None


def checkpoint(step: int, epoch: int | None = None, node: bool = False, directory: str | None = None) -> None:
    """Says that the checkpoint of this step is complete: this process has closed all its files.

    `step` and `epoch` are the numbers in the names of the files, or of the directory; `epoch` only where
    those have one. Call it in every process of the job, after its last file. With `node=True` one process
    speaks for all of its node: call it after a barrier. From the first call on, only steps that all have said
    count. It is said of all outputs with checkpoints, or of the one that `directory` is, or is in. With
    `checkpoint: auto` or `said` the files may have any names: those written since the call before belong to
    the step.

    It appends a line to a file on the node's disk and waits until the disk has it: no network, no lock, and
    at most 0.1 s more. It does nothing where ma_boot publishes no checkpoints, and never raises: what went
    wrong is printed once.
    """
    try:
        spool = os.environ.get(SPOOL)
        if not spool:
            return
        message = {
            "step": int(step),
            "epoch": None if epoch is None else int(epoch),
            "rank": _rank(os.environ),
            "node": bool(node),
            "directory": None if directory is None else os.path.realpath(directory),
        }
        _append(os.path.join(spool, f"{os.getpid()}.jsonl"), message)
    except Exception as error:  # a training of days must not end for a note
        tell(f"a checkpoint was not noted: {type(error).__name__}: {error}")


def _append(path: str, message: Mapping[str, Any]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        line = (json.dumps({**message, "time_ns": _file_time(descriptor)}) + "\n").encode("ascii")
        written = os.write(descriptor, line)
        if written != len(line):
            raise OSError(f"{written} of {len(line)} bytes were written to {path}")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file_time(descriptor: int) -> int | None:
    """The time of this call by the clock that dates files; None if the file system has none this fine.

    It returns when that clock has moved on: so a file of the next step is younger, and tells by its time that
    it is not of this one. Linux dates files by a clock that ticks every 1 to 10 ms.
    """
    os.utime(descriptor)
    called = os.fstat(descriptor).st_mtime_ns
    for _ in range(_LONGEST_TICK):
        time.sleep(0.001)
        os.utime(descriptor)
        if os.fstat(descriptor).st_mtime_ns > called:
            return called
    return None


def _rank(environ: Mapping[str, str]) -> int | None:
    """The rank of this process, as its rendezvous tells it; None if it does not."""
    ranks = [environ[name] for name in _RANKS if environ.get(name, "").isdigit()]
    return int(ranks[0]) if ranks else None


def tell(message: str) -> None:
    """Prints what went wrong, once."""
    if message not in _printed:
        _printed.append(message)
        with suppress(OSError, ValueError, AttributeError):  # without a stderr there is nobody to tell
            sys.stderr.write(f"ma_boot.training: {message}\n")
