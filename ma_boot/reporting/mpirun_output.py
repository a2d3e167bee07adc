"""What mpirun prints when a rank fails: which one it was, and what that rank said. Pure."""

from __future__ import annotations

import re
from typing import Optional

_TAG = r"\[\d+,{}\]<(?:stdout|stderr)>: ?"
_VERDICTS = (
    re.compile(r"The first process to do so was:\s+Process name: \[\[\d+,\d+\],\s?(\d+)\]"),
    re.compile(r"mpirun noticed that process rank (\d+) with PID \d+ on node \S+ exited on signal"),
)


def failed_rank(output: str) -> Optional[int]:
    """The rank that mpirun names as the first to fail; None for any other output (Open MPI 4)."""
    for verdict in _VERDICTS:
        found = verdict.search(output)
        if found:
            return int(found.group(1))
    return None


def words_of_failed_rank(output: str) -> str:
    """What the rank that failed first printed, without `--tag-output`'s tags; any other output as it is.

    Open MPI puts a tag before every piece that it reads, in the middle of a line too.
    """
    rank = failed_rank(output)
    if rank is None:
        return output
    own = re.compile(_TAG.format(rank))
    lines = (line for line in output.splitlines() if own.match(line))
    return "\n".join(own.sub("", line) for line in lines) or output
