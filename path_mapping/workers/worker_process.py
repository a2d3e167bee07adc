"""Program of a worker process, which runs its parent's batches and ends with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import queue
import signal
import socket
import struct
import threading
from typing import Any, NamedTuple

from path_mapping.errors import NoWorkers
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.open_store import open_store_of
from path_mapping.workers.retry import RetriedStore, RetryPolicy
from path_mapping.workers.thread_pool import NO_THREADS, Batch, Outcomes, RateLimiter, ThreadPool

# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1
# Seconds between two reports of finished units in long batches.
REPORT_SECONDS = 0.5
_LENGTH = struct.Struct("!Q")


class MessageSocket:
    """One end of a connection; each message is a pickle after its length in bytes.

    It replaces the `Connection` of `multiprocessing`, whose import takes a quarter of the start of a worker.
    One thread may send while another one receives.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def fileno(self) -> int:
        """The descriptor, which is readable when a message comes, or the other end was closed."""
        return self._end.fileno()

    def close(self) -> None:
        """Closes this end."""
        self._end.close()

    def send(self, message: object) -> None:
        """Sends a message. Raises `OSError` if the other end was closed."""
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._end.sendall(_LENGTH.pack(len(content)) + content)

    def receive(self) -> Any:
        """Receives the next message. Raises `EOFError` or `OSError` if the other end was closed."""
        (size,) = _LENGTH.unpack(self._received(_LENGTH.size))
        return pickle.loads(self._received(size))

    def _received(self, size: int) -> bytearray:
        content = bytearray(size)
        left = memoryview(content)
        while left:
            received = self._end.recv_into(left)
            if not received:
                raise EOFError("the other end was closed")
            left = left[received:]
        return content


class WorkerSetup(NamedTuple):
    """Settings of a worker process; `renewal` are the seconds by which new credentials may be late."""

    access: Access
    renewal: float
    threads: int
    ahead: int
    patience: RetryPolicy


class RenewalWanted(NamedTuple):
    """A worker's request for newer credentials than `used`; the response are the newest ones."""

    used: Credentials


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

    setup: WorkerSetup = connection.receive()
    renewed: queue.SimpleQueue[Credentials] = queue.SimpleQueue()
    newest = [setup.access.credentials]

    def renew() -> Credentials:  # one thread at a time
        send(RenewalWanted(newest[0]))
        newest[0] = renewed.get()
        return newest[0]

    store = open_store_of(setup.access, renew, setup.renewal, lambda text: None)
    limiter = RateLimiter(report=send)
    try:
        to = RetriedStore(store, patience=setup.patience, troubled=send)
        pool = ThreadPool(to, setup.threads, setup.ahead, limiter=limiter)
        threading.Thread(target=_listen, args=(connection, pool, limiter, renewed), daemon=True).start()
    except (NoWorkers, RuntimeError):  # the limit of threads of the user or container is reached
        os._exit(NO_THREADS)
    while True:
        done: Outcomes = pool.outcomes(REPORT_SECONDS)
        if done:
            send(done)


def _listen(
    connection: MessageSocket,
    pool: ThreadPool,
    limiter: RateLimiter,
    renewed: queue.SimpleQueue[Credentials],
) -> None:
    """Receives the parent's messages until it closes the connection, then ends this process at once."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = connection.receive()
            if isinstance(message, list):
                batch: Batch = message
                pool.submit(batch)
            elif isinstance(message, Credentials):
                renewed.put(message)
            else:
                limiter.slower(message)
    os._exit(0)


def end_with_parent() -> None:
    """Makes the kernel send SIGKILL when the parent dies, in case the listening thread cannot run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
