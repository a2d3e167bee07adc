"""Checkpoints for training code: the restored step, and calls for complete steps.

The names of variables are also in `ma_boot.node.boot.checkpoint_phase`: this module has to run on Python 3.7,
in the training's environment, without the rest of the toolkit.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

# The directory from which ma_boot reads the calls; unset: no checkpoints are published.
SPOOL = "MABOOT_CHECKPOINT_SPOOL"
# The step of the first output that has restored one.
STEP = "MABOOT_RESTORED_STEP"
# JSON: a list of all outputs with checkpoints, each with directory, step and source.
ALL = "MABOOT_RESTORED"
_RANKS = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK", "MS_NODE_ID")
# Milliseconds; a file system whose times are further apart has no usable clock.
_LONGEST_TICK = 90
_printed: list[str] = []


def restored_step(directory: str | None = None) -> str | None:
    """Returns the restored step, as in the names of its files; None if the training starts over.

    `directory` is that of an output with checkpoints, or one below it; the default is the first output that
    has restored a step. Raises `ValueError` for a directory that is in no output with checkpoints: to start
    over by mistake would cost more. Without ma_boot it is always None.
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
    """Marks the checkpoint of this step as complete: this process has closed all its files.

    `step` and `epoch` are the numbers in the names of the files, or of the directory; `epoch` only where
    those have one. Call it in every process of the job, after its last file. With `node=True` one process
    calls for all of its node: after a barrier. From the first call on, a step is complete only when all have
    called for it. The call is for all outputs with checkpoints, or for the one that is, or contains,
    `directory`. With `checkpoint: auto` or `explicit` the files may have any names: those written since the
    call before belong to the step.

    It appends a line to a file on the node's disk and waits until the disk has it: no network, no lock, and
    at most 0.1 s more. It does nothing where ma_boot publishes no checkpoints, and never raises: an error is
    printed once.
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
    # A training of days must not end because of a note.
    except Exception as error:
        print_once(f"a checkpoint was not noted: {type(error).__name__}: {error}")


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
    """Returns the time of this call by the clock that dates files; None if that clock is too coarse.

    It returns after that clock has moved on: so a file of the next step is younger, and its time shows that
    it does not belong to this one. Linux dates files by a clock that ticks every 1 to 10 ms.
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
    """Returns the rank of this process by the variables of its rendezvous; None if there is none."""
    ranks = [environ[name] for name in _RANKS if environ.get(name, "").isdigit()]
    return int(ranks[0]) if ranks else None


def print_once(message: str) -> None:
    """Prints an error, once."""
    if message not in _printed:
        _printed.append(message)
        # stderr may be closed, or None.
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"ma_boot.training: {message}\n")
