"""Checkpoints for training code: requests of ma_boot to save, in all ranks at the same step."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Sequence

from ma_boot.training.checkpoint_note import print_once

# The file of this attempt, shared with ma_boot; unset: no checkpoint is ever requested.
FILE = "MABOOT_SAVE_FILE"
# The file has the number of the highest call so far, then the answers.
NUMBER = struct.Struct("<q")
# Bytes that are read of the file, at most: 131,072 numbers.
MOST_BYTES = 1 << 20
# Seconds between two looks at the file while the nodes have not agreed on a call.
POLL_SECONDS = 0.02
_calls = 0


def should_save() -> bool:
    """Returns whether to save a checkpoint now: the job's time limit is near, or a user has requested one.

    Call it in every rank, once at the end of every step: all ranks of all nodes get the same answer at the
    same call, and True once for each request. It takes a lock on a file of the node's memory or disk for some
    microseconds, and waits only at a call on which the nodes have not agreed yet. Where they cannot agree (no
    MABOOT_JOB_TOKEN), and without ma_boot, it is always False. It never raises: an error is printed once.
    """
    global _calls
    _calls += 1
    path = os.environ.get(FILE)
    if not path:
        return False
    try:
        return _is_asked(path, _calls)
    # A training of days must not end because of a question.
    except Exception as error:
        print_once(f"not known whether to save: {type(error).__name__}: {error}")
        return False


def answer(answers: Sequence[int], call: int) -> bool | None:
    """Returns the answer for a call; None while in doubt. `answers` are calls, negative if in doubt."""
    return None if -call in answers else call in answers


def _is_asked(path: str, call: int) -> bool:
    """Returns whether this call has to save; waits while that is in doubt.

    ma_boot requests a call after the highest one so far, under the same lock: so all ranks are still before
    it, and see the request when they come there.
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
