"""Switches PyTorch's recorders of collectives on, for the ranks of one attempt.

Each attempt has its own directory for what NCCL and HCCL dump on a failure, below the directory of the logs.
Pipes are in a directory of their own below /tmp: a network disk may not have any, and PyTorch fails without.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from ma_boot.node.environment.training_environment import FOR_TRAINING
from ma_boot.node.observe.collectives.dump_files import DIRECTORY, RecordRead, merged, read_dump

# Collectives that a rank keeps, as PyTorch since 2.9; some hundred bytes each.
ENTRIES = "2000"
# Names that PyTorch also reads: a user who has set one of them has decided.
_ALSO = {
    "TORCH_FR_BUFFER_SIZE": "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_FR_DUMP_TEMP_FILE": "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "TORCH_FR_DUMP_ON_TIMEOUT",
}


def variables(dumps: str, pipes: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of a rank: those of PyTorch where the user has not set them. Pure."""
    wanted = {
        # FlightRecorder.hpp: the number of entries, 0 for none; before PyTorch 2.9 it is 0 by default.
        "TORCH_FR_BUFFER_SIZE": ENTRIES,
        # FlightRecorder.cpp, DebugInfoWriter: the file of a dump, to which the rank is appended.
        "TORCH_FR_DUMP_TEMP_FILE": os.path.join(dumps, "nccl_rank_"),
        # ProcessGroupNCCL.hpp: dumps when the watchdog finds a time-out or an error.
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        # ProcessGroupNCCL.hpp, DumpPipe: what is written to PIPE + rank + `.pipe` asks for a dump.
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": os.path.join(pipes, "nccl_rank_"),
        # torch_npu's ProcessGroupHCCL.hpp and .cpp: the same four. Its pipe, and its dump on a time-out, also
        # need TORCH_HCCL_ENABLE_MONITORING=1, which is the user's: it ends processes on its own.
        "TORCH_HCCL_TRACE_BUFFER_SIZE": ENTRIES,
        "TORCH_HCCL_DEBUG_INFO_TEMP_FILE": os.path.join(dumps, "hccl_rank_"),
        "TORCH_HCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_HCCL_DEBUG_INFO_PIPE_FILE": os.path.join(pipes, "hccl_rank_"),
    }
    missing = {
        name: value
        for name, value in wanted.items()
        if name not in environ and _ALSO.get(name, name) not in environ
    }
    start = os.path.join(FOR_TRAINING, "at_start")
    path = os.pathsep.join(filter(None, [environ.get("PYTHONPATH", ""), start]))
    return {**missing, DIRECTORY: pipes, "PYTHONPATH": path}


class Recorder(NamedTuple):
    """The directories of one attempt."""

    dumps: str
    pipes: str

    @classmethod
    def open(cls, log_dir: str, node: int, attempt: int) -> Recorder:
        """Creates the directories, without what an earlier boot has left; raises `OSError`."""
        dumps = os.path.join(log_dir, "collectives", f"node-{node}-attempt-{attempt}")
        shutil.rmtree(dumps, ignore_errors=True)
        os.makedirs(dumps)
        pipes = tempfile.mkdtemp(prefix="ma_boot-records-")
        # Fails where pipes are not allowed: PyTorch would fail then.
        try:
            os.mkfifo(os.path.join(pipes, "test"))
        except OSError:
            shutil.rmtree(pipes, ignore_errors=True)
            raise
        return cls(dumps, pipes)

    def of_rank(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment of a rank with the variables added."""
        return {**environ, **variables(self.dumps, self.pipes, environ)}

    def failed_ranks(self) -> dict[int, RecordRead]:
        """Reads what ranks of this node have dumped on a failure."""
        found: dict[int, list[RecordRead]] = {}
        for file in sorted(os.listdir(self.dumps)):
            rank = file.rpartition("_")[2]
            if rank.isdecimal() and len(rank) < 10:
                found.setdefault(int(rank), []).append(read_dump(os.path.join(self.dumps, file)))
        return {rank: merged(reads) for rank, reads in found.items()}

    def close(self) -> None:
        """Removes the pipes, and the directory of the dumps if there are none."""
        shutil.rmtree(self.pipes, ignore_errors=True)
        for directory in (self.dumps, os.path.dirname(self.dumps)):
            try:
                os.rmdir(directory)
            except OSError:  # a rank has dumped its record
                break
