"""Identity of a node in one start of its job. Pure."""

from __future__ import annotations

from typing import NamedTuple


class JobMember(NamedTuple):
    """Node `node` of `nodes` in one start of a job, with its global `ranks` out of `world_size`.

    `job` identifies the job, and stays the same when the platform restarts it; `start` identifies this start
    of it, and is the same on all its nodes.
    """

    node: int
    nodes: int
    ranks: tuple[int, ...] = ()
    world_size: int = 0
    job: str = ""
    start: str = ""
