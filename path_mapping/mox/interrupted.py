"""Whether it was an exception that ended the code which had a file: then what it has written may be half."""

from __future__ import annotations

import gc
import opcode
import sys
from threading import get_ident
from types import FrameType
from typing import Mapping, Optional, Set

# What CPython is at when an `except` clause, or a `with` that swallows, has ended and the exception is freed;
# in 3.7 the clause may be left by the last three.
_ENDS_CLAUSE = {"POP_EXCEPT", "END_FINALLY", "WITH_CLEANUP_FINISH"}
_ENDS_HANDLING = {*_ENDS_CLAUSE, "RETURN_VALUE", "BREAK_LOOP", "CONTINUE_LOOP"}
_collecting: Set[int] = set()  # the threads in which the garbage collector is at work


def handled_now() -> Optional[int]:
    """The identity of the exception that is being handled, if there is one."""
    error = sys.exc_info()[1]
    return None if error is None else id(error)


def frees_exception(frame: Optional[FrameType]) -> bool:
    """Whether this frame frees an exception now, and with its traceback all that its frames had.

    `except Error as name` ends with `name = None; del name`, as the language reference says. Without any
    frame, it is `SystemExit`, which has ended the program.
    """
    if frame is None:
        return True
    code, at = frame.f_code.co_code, frame.f_lasti
    name = opcode.opname[code[at]]
    if name.startswith("STORE_") and at + 3 < len(code):
        return opcode.opname[code[at + 2]] == name.replace("STORE", "DELETE") and code[at + 3] == code[at + 1]
    return name in _ENDS_HANDLING


def is_collected() -> bool:
    """Whether the garbage collector is at work in this thread: it comes whatever is handled."""
    return get_ident() in _collecting


def _note(phase: str, info: Mapping[str, int]) -> None:
    (_collecting.add if phase == "start" else _collecting.discard)(get_ident())


gc.callbacks.append(_note)


def held_by_exception(held: object) -> bool:
    """At the end of the program: whether an exception ended it, or a kept one has a frame with this."""
    if getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1"):
        return True
    running = set()
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        running.add(id(frame))
        frame = frame.f_back
    return any(isinstance(one, FrameType) and id(one) not in running for one in gc.get_referrers(held))
