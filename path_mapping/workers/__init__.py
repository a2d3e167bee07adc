"""Runs the requests of a transfer in threads and processes, with retries and a rate limit."""

from path_mapping.workers.retry import (
    RetryPolicy as RetryPolicy,
    Trouble as Trouble,
    Troubled as Troubled,
    retrying as retrying,
    untold as untold,
)
from path_mapping.workers.start_pool import start_pool as start_pool, start_store_thread as start_store_thread
from path_mapping.workers.thread_pool import Batch as Batch, Outcome as Outcome, Pool as Pool
