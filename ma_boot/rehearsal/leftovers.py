"""What still runs of a rehearsed job: every process of a node has the job's name in its environment."""

from __future__ import annotations

import signal
import time
from typing import List

from ma_boot.processes import processes_with, reap_orphans, signal_process
from ma_boot.rehearsal.platform.simulated_job import SimulatedJob

_GONE_SECONDS = 10.0  # the guard of a node that was lost needs only milliseconds
_LOOK_SECONDS = 0.01


def end_left_over(job: SimulatedJob) -> List[int]:
    """Ends what is there still a while after every node has ended; returns those processes."""
    until = time.monotonic() + _GONE_SECONDS
    while True:
        reap_orphans([])
        found = living(job)
        if not found:
            return found
        if time.monotonic() > until:
            for pid in found:
                signal_process(pid, signal.SIGKILL)
            return found
        time.sleep(_LOOK_SECONDS)


def living(job: SimulatedJob) -> List[int]:
    """The processes of its nodes that live, as far as this user may look at them."""
    return [pid for pid, name in processes_with("MA_VJ_NAME") if name == job.name]
