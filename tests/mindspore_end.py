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


MOST_AGAIN = 3
Ended = TypeVar("Ended", bound=Run)


def again_after_a_crash(run: Callable[[], Ended], last_line: str) -> Ended:
    """How the run ended; one whose rank crashed after it had printed its last line is made again, thrice at most.

    MindSpore 2.7.1 crashes at the end of about one process in 300, of one in 30 where eight in containers
    share two cores, when all its work is done (README of the example), and ma_boot rightly calls that a
    failure. Such a run, and no other, is made again.
    """
    ended = run()
    for _ in range(MOST_AGAIN):
        crashed = re.search(r"(rank \d+) was killed by SIGSEGV", ended.output)
        if ended.code != 139 or crashed is None or f"[{crashed.group(1)}] {last_line}" not in ended.output:
            break
        print(f"MindSpore crashed at its end, once more: {crashed.group(0)}")
        ended = run()
    return ended
