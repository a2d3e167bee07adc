"""The processes whose stacks are read: ranks, also those that a launcher has started itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ma_boot.node.observe.rank_stacks.stacks import UNKNOWN
from ma_boot.node.scripts.job_processes import descendants_of
from ma_boot.node.scripts.script_rank import find_ranks
from ma_boot.node.supervisor.output import WorkerOutput
from ma_boot.node.supervisor.worker_group import Worker


class RankProcess(NamedTuple):
    """A process whose stacks are read: of a worker, or of a rank that a worker has started.

    `path` is searched for py-spy, which gets the training's `environ` without secrets. `output` is the output
    that ma_boot reads of this process; None below a launcher, whose output is of all its ranks. `rank` is
    None for a process that is no rank. `quiet` are the seconds without activity, `printed` those since the
    last output.
    """

    pid: int
    path: str
    output: WorkerOutput | None = None
    environ: Mapping[str, str] = MappingProxyType({})
    rank: int | None = None
    label: str = ""
    quiet: float = 0.0
    printed: float = UNKNOWN

    @classmethod
    def all_of(cls, worker: Worker, quiet: float) -> list[RankProcess]:
        """Returns the ranks that a launcher has started, or the worker itself."""
        spec = worker.spec
        launched = ranks_below(worker.pid, spec.environ) if spec.rank is None else {}
        printed = time.monotonic() - worker.output.last_output if spec.rank is not None else UNKNOWN
        return [
            cls(
                pid,
                path=f"{spec.environ.get('PATH', '')}:{os.path.dirname(sys.executable)}",
                output=worker.output if pid == worker.pid else None,
                environ=spec.environ,
                rank=rank,
                label=spec.label,
                quiet=quiet,
                printed=printed,
            )
            for rank, pid in launched.items() or [(spec.rank, worker.pid)]
        ]

    def logged(self) -> str:
        """The latest lines of its output and of CANN's logs."""
        from ma_boot.node.observe.plogs import PlogWriter, plog_ends  # needed for a hang only

        if self.output is not None:
            return self.output.tail() + plog_ends(self.environ)
        return plog_ends(self.environ, PlogWriter(self.pid))


def ranks_below(launcher: int, given: Mapping[str, str]) -> dict[int, int]:
    """Finds the ranks that a process with the environment `given` has started: rank to process."""
    found = [
        (rank.number.rank, rank.pid) for rank in find_ranks(descendants_of(launcher, given)) if rank.number
    ]
    return dict(reversed(found))
