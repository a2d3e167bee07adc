"""What tests do about MindSpore's own crash at the end of a process."""

from __future__ import annotations

import re
from typing import Callable, Protocol, TypeVar


class Run(Protocol):
    """How a run ended."""

    @property
    def code(self) -> int: ...

    @property
    def output(self) -> str: ...


Ended = TypeVar("Ended", bound=Run)


def once_more_after_a_crash(run: Callable[[], Ended], last_line: str) -> Ended:
    """How the run ended; one whose rank crashed after it had printed its last line is made once more.

    MindSpore 2.7.1 crashes at the end of about one process in 300, when all its work is done (README of the
    example), and ma_boot rightly calls that a failure. Such a run, and no other, is made again.
    """
    ended = run()
    crashed = re.search(r"(rank \d+) was killed by SIGSEGV", ended.output)
    if ended.code != 139 or crashed is None or f"[{crashed.group(1)}] {last_line}" not in ended.output:
        return ended
    print(f"MindSpore crashed at its end, once more: {crashed.group(0)}")
    return run()
