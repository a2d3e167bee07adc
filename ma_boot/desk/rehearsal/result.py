"""The result of a rehearsal, as a value and as JSON. Pure."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any, NamedTuple

from ma_boot.desk.rehearsal.kept import PAGE
from ma_boot.desk.rehearsal.platform.simulated_job import SimulatedJob
from ma_boot.desk.rehearsal.summary import FaultVerdict
from ma_boot.redact import masked


class RehearsalResult(NamedTuple):
    """The end of a rehearsal: its exit code, that of the job, the cause of the former, and its duration.

    Both exit codes are the same unless a fault is not as expected. `with_page`: the page was written.
    """

    job: SimulatedJob
    exit_code: int
    job_exit_code: int
    cause: str
    seconds: float
    with_page: bool
    faults: tuple[FaultVerdict, ...] = ()

    def document(self) -> dict[str, Any]:
        """Returns the result as JSON values, without secrets; paths are absolute."""
        root, job = self.job.root, self.job
        document: dict[str, Any] = masked(
            {
                "exit_code": self.exit_code,
                "job_exit_code": self.job_exit_code,
                "cause": self.cause,
                "seconds": round(self.seconds, 3),
                "nodes": job.nodes,
                "devices_per_node": job.devices_per_node,
                "directory": root,
                "logs": [job.log_dir(node) for node in range(job.nodes)],
                "page": os.path.join(root, PAGE) if self.with_page else None,
                "faults": [asdict(verdict) for verdict in self.faults],
            }
        )
        return document
