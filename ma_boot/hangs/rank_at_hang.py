"""What is known of one rank of a job that hangs. Pure."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple


class RankAtHang(NamedTuple):
    """`stack` is what py-spy or faulthandler printed, or why there is nothing.

    `quiet` are the seconds without output and CPU time, `waits_for` the ranks that HCCL says it waits for,
    `ended` its exit code if it has ended, and `state` the letter of proc(5) for its main thread.
    """

    rank: int
    node: int
    stack: str = ""
    quiet: float = 0.0
    waits_for: Tuple[int, ...] = ()
    ended: Optional[int] = None
    state: str = ""
