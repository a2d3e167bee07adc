"""Starts the pool for a transfer: threads of this process, or worker processes."""

from __future__ import annotations

import threading
from functools import partial

from path_mapping.stores import Access, Store, open_store_path
from path_mapping.workers.rate_limit import RateLimiter
from path_mapping.workers.retry import RetryPolicy, Troubled
from path_mapping.workers.thread_pool import Moved, Pool, ThreadPool, data_path_threads


def start_pool(
    access: Access,
    processes: int,
    threads: int,
    ahead: int,
    moved: Moved,
    patience: RetryPolicy,
    troubled: Troubled,
) -> Pool:
    """Worker processes with `threads` each, or that many threads of this process if `processes` is 0.

    Each thread asks for so many objects `ahead`.

    `moved` is called when bytes of a unit have moved; not with processes, which report finished units only.
    `troubled` is called with each failure that is retried.
    """
    if processes:
        from path_mapping.workers.worker_processes import ProcessPool  # `multiprocessing` is slow to import

        return ProcessPool(access, processes, threads, ahead, patience, troubled)
    return data_path_threads(access, threads, ahead, moved, RateLimiter(), patience, troubled)


def start_store_thread(
    store: Store, cancel: threading.Event, moved: Moved, patience: RetryPolicy, troubled: Troubled
) -> Pool:
    """One thread that moves whole files through the store itself, until `cancel` is set."""
    return ThreadPool(1, 0, partial(open_store_path, store, cancel), moved, RateLimiter(), patience, troubled)
