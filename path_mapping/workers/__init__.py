"""Runs the requests of a transfer in threads and processes, with retries and a rate limit."""

from path_mapping.workers.retry import (
    RetriedStore as RetriedStore,
    RetryPolicy as RetryPolicy,
    Trouble as Trouble,
    Troubled as Troubled,
    ignore_retry as ignore_retry,
)
from path_mapping.workers.start_pool import start_pool as start_pool
from path_mapping.workers.thread_pool import Batch as Batch, Outcome as Outcome, Pool as Pool
