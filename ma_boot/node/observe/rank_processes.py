"""The processes whose stacks are read: ranks, also those that a launcher has started itself."""

from __future__ import annotations

import glob
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from ma_boot.node.observe.stacks import UNKNOWN
from ma_boot.node.scripts.job_processes import descendants_of
from ma_boot.node.scripts.script_rank import find_ranks
from ma_boot.node.supervisor.output import WorkerOutput
from ma_boot.node.supervisor.worker_group import Worker

# CANN's log files that are read of a rank; CANN begins a new one after some megabytes.
MOST_PLOGS = 2
PLOG_BYTES = 1 << 16  # read from the end of each


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
        if self.output is not None:
            return self.output.tail() + plog_ends(self.environ)
        # CANN has the number of the process in the names of its files.
        return plog_ends(self.environ, f"plog-{self.pid}_*.log")


def plog_ends(environ: Mapping[str, str], names: str = "plog-*.log") -> str:
    """Returns the ends of CANN's newest log files, which have more of HCCL than the output of a rank."""
    place = environ.get("ASCEND_PROCESS_LOG_PATH")
    if not place:
        return ""
    files = glob.glob(os.path.join(glob.escape(place), "debug", "plog", names))
    texts: list[str] = []
    for file in sorted(files, key=_modified)[-MOST_PLOGS:]:
        with suppress(OSError), open(file, "rb") as log:  # CANN may have removed it meanwhile
            log.seek(max(0, os.fstat(log.fileno()).st_size - PLOG_BYTES))
            texts.append(log.read(PLOG_BYTES).decode("utf-8", "replace"))
    return "\n".join(["", *texts])


def _modified(file: str) -> float:
    """Returns the modification time; 0 for a removed file, which sorts it before all others."""
    try:
        return os.path.getmtime(file)
    except OSError:
        return 0.0


def ranks_below(launcher: int, given: Mapping[str, str]) -> dict[int, int]:
    """Finds the ranks that a process with the environment `given` has started: rank to process."""
    found = [
        (rank.number.rank, rank.pid) for rank in find_ranks(descendants_of(launcher, given)) if rank.number
    ]
    return dict(reversed(found))
