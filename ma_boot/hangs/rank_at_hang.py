"""What is known of one rank of a job that hangs. Pure."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence, Tuple


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


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-6, 8`."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    text = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
    return f"rank{'s' if len(ranks) > 1 else ''} {text}"
