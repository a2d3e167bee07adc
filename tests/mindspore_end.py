"""Repetition of runs in which MindSpore crashed at the end of a process."""

from __future__ import annotations

import re
from typing import Callable, Protocol, TypeVar


class Run(Protocol):
    """Exit code and output of a run."""

    @property
    def code(self) -> int: ...

    @property
    def output(self) -> str: ...


MOST_REPETITIONS = 3
Ended = TypeVar("Ended", bound=Run)


def again_after_a_crash(run: Callable[[], Ended], last_line: str) -> Ended:
    """Returns the end of the run, which is repeated, three times at most, if a rank crashed after its last line.

    MindSpore 2.7.1 crashed at the end of about one process in 300, or one in 30 when eight in containers shared
    two cores, after all its work was done, and ma_boot rightly reports a failure. Of 2.9.0 no crash is known, but
    fewer processes were counted (README of the example). Only such a run is repeated.
    """
    ended = run()
    for _ in range(MOST_REPETITIONS):
        crashed = re.search(r"(rank \d+) was killed by SIGSEGV", ended.output)
        if ended.code != 139 or crashed is None or f"[{crashed.group(1)}] {last_line}" not in ended.output:
            break
        print(f"MindSpore crashed at its end, the run is repeated: {crashed.group(0)}")
        ended = run()
    return ended
