"""Runs the requests of a transfer in threads and processes, with retries and a rate limit."""

from path_mapping.workers.retry import RetryPolicy, Trouble, Troubled, retrying, untold
from path_mapping.workers.start_pool import start_pool, start_store_thread
from path_mapping.workers.thread_pool import Batch, Outcome, Pool

__all__ = [
    "Batch",
    "Outcome",
    "Pool",
    "RetryPolicy",
    "Trouble",
    "Troubled",
    "retrying",
    "start_pool",
    "start_store_thread",
    "untold",
]
