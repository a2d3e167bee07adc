"""CANN's log files of the host (plogs), which have more of CANN and HCCL than the output of a rank."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ma_boot.report.files import read_end

# Files that are read of a process; CANN begins a new one after some megabytes.
MOST_PLOGS = 2
# Bytes that are read of a process, from the ends of its newest files.
PLOG_BYTES = 1 << 16
# Entries of a directory that are looked at: each start of a job adds some to one that outlives the job.
MOST_ENTRIES = 10_000
LOG_PATH = "ASCEND_PROCESS_LOG_PATH"
# Below the log directory; CANN 5 and before have no `debug`.
_PLACES = ("debug/plog", "plog")
# `plog-<pid>_<17 digits>.log`
_NAME = re.compile(r"plog-(?P<pid>\d{1,9})?.*\.log", re.ASCII)


class PlogWriter(NamedTuple):
    """Processes whose plogs are read, by the pid in the files' names.

    `with_children` adds the processes that were started later: only for a directory of this rank alone.
    Files that were last written before `since` (Unix seconds) are of an earlier attempt.
    """

    pid: int
    with_children: bool = False
    since: float = 0.0

    def has_written(self, pid: int, modified: float) -> bool:
        """Returns whether a file is one of these processes."""
        is_ours = pid >= self.pid if self.with_children else pid == self.pid
        return is_ours and modified >= self.since


def plog_ends(environ: Mapping[str, str], writer: PlogWriter | None = None) -> str:
    """Returns the ends of the newest plogs, oldest first; without a `writer` those of all processes.

    Only regular files are read: a link may lead anywhere, and a FIFO blocks. Unreadable ones are skipped.
    """
    room, texts = PLOG_BYTES, [""]
    for _, file in sorted(_files(environ, writer), reverse=True)[:MOST_PLOGS]:
        with suppress(OSError):  # CANN may have removed it meanwhile
            texts.insert(1, read_end(Path(file), room) if room else "")
            room -= min(room, os.path.getsize(file))
    return "\n".join(texts)


def _files(environ: Mapping[str, str], writer: PlogWriter | None) -> Iterator[tuple[float, str]]:
    """Yields the times and paths of plogs."""
    place = environ.get(LOG_PATH, "")
    # CANN's default is common to all ranks, so it needs a pid.
    if not place and writer is not None and environ.get("HOME"):
        place = os.path.join(environ["HOME"], "ascend", "log")
    for below in _PLACES if place else ():
        with suppress(OSError), os.scandir(os.path.join(place, below)) as entries:
            for entry in islice(entries, MOST_ENTRIES):
                named = _NAME.fullmatch(entry.name)
                if named is None or (writer is not None and named["pid"] is None):
                    continue
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    is_wanted = writer is None or writer.has_written(int(named["pid"]), status.st_mtime)
                    if is_wanted and stat.S_ISREG(status.st_mode):
                        yield status.st_mtime, entry.path
