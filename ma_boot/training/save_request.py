"""Checkpoints for training code: whether one is asked for, in all ranks at the same step."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Sequence

from ma_boot.training.checkpoint_note import tell

FILE = "MABOOT_SAVE_FILE"  # of this attempt; not set: nobody asks
NUMBER = struct.Struct("<q")  # the file has the highest call so far, then the answers
MOST_BYTES = 1 << 20
POLL_SECONDS = 0.02
_calls = 0


def should_save() -> bool:
    """Whether ma_boot asks for a checkpoint of this step, as the job's time is nearly over or somebody asks.

    Call it in every rank, once at the end of every step: all ranks of all nodes answer the same at the same
    call, and True once for what is asked. It takes a lock on a file of the node's memory or disk for some
    microseconds, and waits only at a call on which the nodes have not agreed yet. Where they cannot agree (no
    MABOOT_JOB_TOKEN), and without ma_boot, it is always False. It never raises: what went wrong is printed
    once.
    """
    global _calls
    _calls += 1
    path = os.environ.get(FILE)
    if not path:
        return False
    try:
        return _is_asked(path, _calls)
    except Exception as error:  # a training of days must not end for a question
        tell(f"not known whether to save: {type(error).__name__}: {error}")
        return False


def answer(answers: Sequence[int], call: int) -> bool | None:
    """What a rank answers at a call: `answers` are those that are True, negative in doubt; then None."""
    return None if -call in answers else call in answers


def _is_asked(path: str, call: int) -> bool:
    """Whether this call is one that is asked to save, once that is not in doubt any more.

    ma_boot asks for a call after the highest one so far, under the same lock: so all ranks are still before
    it, and see the question when they come there.
    """
    with open(path, "r+b", buffering=0) as file:
        while True:
            fcntl.flock(file, fcntl.LOCK_EX)
            (highest,), *answers = NUMBER.iter_unpack(os.pread(file.fileno(), MOST_BYTES, 0))
            if call > highest:
                os.pwrite(file.fileno(), NUMBER.pack(call), 0)
            fcntl.flock(file, fcntl.LOCK_UN)
            is_asked = answer([number for (number,) in answers], call)
            if is_asked is not None:
                return is_asked
            time.sleep(POLL_SECONDS)
