"""Records of collectives around an attempt: switched on before it, and read after a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ma_boot.node.boot.boot_state import Boot
from ma_boot.node.launch.launch_plan import WorkerSpec


@contextmanager
def recording(boot: Boot, workers: Sequence[WorkerSpec], attempt: int) -> Iterator[Sequence[WorkerSpec]]:
    """Yields the processes of an attempt, with PyTorch's recorders switched on for `--rendezvous torch`."""
    request, job = boot.request, boot.job
    recorder = None
    if request.launch.rendezvous == "torch" and request.run.collectives != "off":
        with boot.journal.best_effort("hangs are reported without their collectives"):
            from ma_boot.node.observe.collectives.recorder import Recorder

            recorder = Recorder.open(os.path.join(job.log_dir, job.name), job.node_rank, attempt)
            workers = [worker._replace(environ=recorder.of_rank(worker.environ)) for worker in workers]
    try:
        yield workers
    finally:
        if recorder is not None:
            recorder.close()
