"""Starts the pool for a transfer: threads of this process, or worker processes."""

from __future__ import annotations

from path_mapping.workers.retry import RetriedStore
from path_mapping.workers.thread_pool import Moved, Pool, ThreadPool


def start_pool(to: RetriedStore, processes: int, threads: int, ahead: int, moved: Moved) -> Pool:
    """Starts worker processes with `threads` each, or that many threads of this process without `processes`.

    Each thread requests so many objects `ahead`. A store without a signer gets one thread, which moves
    complete files.

    `moved` is called when bytes of a unit have moved; not with processes, which report finished units only.
    """
    if to.store.signer is None:
        return ThreadPool(to, 1, 0, moved)
    if processes:
        from path_mapping.workers.worker_processes import ProcessPool  # slow to import

        return ProcessPool(to, processes, threads, ahead)
    return ThreadPool(to, threads, ahead, moved)
