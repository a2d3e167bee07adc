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
from ma_boot.node.supervisor.output import WorkerOutput
from ma_boot.node.supervisor.worker_group import Worker
from ma_boot.processes.cpu_meter import process_usages
from ma_boot.processes.orphan_guard import children_of, processes_with

# CANN's log files that are read of a rank; CANN begins a new one after some megabytes.
MOST_PLOGS = 2
PLOG_BYTES = 1 << 16  # read from the end of each
# Variables that launchers set for their ranks: torchrun, accelerate and DeepSpeed; Open MPI; MPICH; msrun.
_RANK_VARIABLES = (
    ("RANK", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK",),
    ("PMI_RANK",),
    ("MS_NODE_ID", "MS_ROLE"),
)


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
        launched = ranks_below(worker.pid) if spec.rank is None else {}
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


def ranks_below(launcher: int) -> dict[int, int]:
    """Finds the ranks that a launcher has started, by the variables in their environment: rank to process.

    Data loaders inherit the variables of their rank, and a script around the rank has them, too. So the
    uppermost Python process is the rank, or the uppermost process if none is Python.
    """
    below = children_of((pid, usage.parent) for pid, usage in process_usages().items())
    layer, order = [launcher], [launcher]
    while layer:
        layer = [child for pid in layer for child in below.get(pid, ())]
        order += layer
    for names in _RANK_VARIABLES:
        first, *others = (dict(processes_with(name, order)) for name in names)
        ranks = {pid: int(first[pid]) for pid in order if first.get(pid, "").isdecimal()}
        ranks = {pid: rank for pid, rank in ranks.items() if all(pid in other for other in others)}
        if ranks and launcher not in ranks:
            lowest: dict[int, int] = {}
            for pid in [*filter(_is_python, ranks), *ranks]:
                lowest.setdefault(ranks[pid], pid)
            return lowest
    return {}


def _is_python(pid: int) -> bool:
    program = ""
    with suppress(OSError):  # it has just ended
        program = os.readlink(f"/proc/{pid}/exe")
    return os.path.basename(program).startswith("python")
