"""The program of a worker process: takes batches from its parent, and ends when the parent does."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import threading
from typing import Tuple

from path_mapping.errors import NoWorkers
from path_mapping.stores import Access, Credentials
from path_mapping.workers.message_socket import MessageSocket
from path_mapping.workers.rate_limit import RateLimiter
from path_mapping.workers.retry import RetryPolicy
from path_mapping.workers.thread_pool import NO_THREADS, Batch, Outcomes, ThreadPool, data_path_threads

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
REPORT_SECONDS = 0.5  # between two reports of what long batches have done


def main(handle: int) -> None:
    """Runs until the parent closes its end of the connection, whose other end is `handle`."""
    end_with_parent()
    connection = MessageSocket(socket.socket(fileno=handle))
    sending = threading.Lock()

    def send(message: object) -> None:
        with sending:
            try:
                connection.send(message)
            except OSError:
                os._exit(0)  # the parent is gone

    setup: Tuple[Access, int, int, RetryPolicy] = connection.receive()
    access, threads, ahead, patience = setup
    limiter = RateLimiter(told=send)
    try:
        pool = data_path_threads(access, threads, ahead, lambda number, size: None, limiter, patience, send)
        threading.Thread(target=_listen, args=(connection, pool, limiter), daemon=True).start()
    except (NoWorkers, RuntimeError):  # the limit of threads, of the user or of the container
        os._exit(NO_THREADS)
    while True:
        done: Outcomes = pool.outcomes(REPORT_SECONDS)
        if done:
            send(done)


def _listen(connection: MessageSocket, pool: ThreadPool, limiter: RateLimiter) -> None:
    """Takes the parent's messages until it closes the connection, then ends this process at once."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = connection.receive()
            if isinstance(message, list):
                batch: Batch = message
                pool.submit(batch)
            elif isinstance(message, Credentials):
                pool.use(message)
            else:
                limiter.slower(message)
    os._exit(0)


def end_with_parent() -> None:
    """Has the kernel send SIGKILL when the parent dies, in case the listening thread does not get to run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
