"""Program of a worker process, which runs its parent's units and ends with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import queue
import select
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from path_mapping.errors import NoWorkers
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.open_store import open_store_of
from path_mapping.workers.loop import Loop
from path_mapping.workers.retry import RetriedStore, RetryPolicy

# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1
# Seconds of a turn without outcomes, and of one while the parent does not receive.
_IDLE_SECONDS = 1.0
_FLUSH_SECONDS = 0.05
# Exit code of a worker process that cannot start its loop.
NO_LOOP = 73
_LENGTH = struct.Struct("!Q")
# Bytes that are received at once.
_RECEIVED = 1 << 16


class MessageSocket:
    """One end of a connection; each message is a pickle after its length in bytes.

    It replaces the `Connection` of `multiprocessing`, whose import takes a quarter of the start of a worker.
    Any thread may send. Neither end waits for the other one to receive: `send` keeps what the kernel does not
    take, and `flush` sends it later.
    """

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._received = bytearray()
        self._unsent = bytearray()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """The descriptor, which is readable when a message comes, or the other end was closed."""
        return self._end.fileno()

    def close(self) -> None:
        """Closes this end."""
        self._end.close()

    def send(self, message: object) -> None:
        """Sends a message. Raises `OSError` if the other end was closed."""
        content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        with self._sending:
            self._unsent += _LENGTH.pack(len(content)) + content
        self.flush()

    def flush(self) -> bool:
        """Sends what was kept; True if nothing is left. Raises `OSError` if the other end was closed."""
        with self._sending, contextlib.suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: self._end.send(self._unsent)]
        return not self._unsent

    def messages(self) -> Iterator[Any]:
        """Yields the messages that have come. Raises `EOFError` or `OSError` if the other end was closed."""
        with contextlib.suppress(BlockingIOError):
            while True:
                more = self._end.recv(_RECEIVED)
                if not more:
                    raise EOFError("the other end was closed")
                self._received += more
                yield from self._whole()

    def _whole(self) -> Iterator[Any]:
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            message = pickle.loads(bytes(self._received[_LENGTH.size : end]))
            del self._received[:end]
            yield message


class WorkerSetup(NamedTuple):
    """Settings of a worker process; `renewal` are the seconds by which new credentials may be late."""

    access: Access
    renewal: float
    connections: int
    patience: RetryPolicy


class RenewalWanted(NamedTuple):
    """A worker's request for newer credentials than `used`; the response are the newest ones."""

    used: Credentials


class WorkerProgram:
    """The loop of a process, and the connection to its parent, which has sent nothing yet."""

    def __init__(self, connection: MessageSocket) -> None:
        self._connection = connection
        self._renewed: queue.SimpleQueue[Credentials] = queue.SimpleQueue()
        self._loop: Loop | None = None

    def run(self) -> None:
        """Works until the parent closes its end of the connection. Raises `EOFError` or `OSError` then."""
        first = select.poll()
        first.register(self._connection, select.POLLIN)
        while self._loop is None:
            first.poll()
            self._take()
        while True:
            done = self._loop.outcomes(_IDLE_SECONDS if self._connection.flush() else _FLUSH_SECONDS)
            if done:
                self._connection.send(done)

    def _take(self) -> None:
        for message in self._connection.messages():
            if isinstance(message, WorkerSetup):
                self._loop = self._started(message)
                continue
            assert self._loop is not None
            if isinstance(message, list):
                self._loop.submit(message)
            elif isinstance(message, Credentials):
                self._renewed.put(message)
            else:
                self._loop.slower(message)

    def _started(self, setup: WorkerSetup) -> Loop:
        newest = [setup.access.credentials]

        def renew() -> Credentials:  # one thread at a time
            self._connection.send(RenewalWanted(newest[0]))
            newest[0] = self._renewed.get()
            return newest[0]

        store = open_store_of(setup.access, renew, setup.renewal, lambda text: None)
        to = RetriedStore(store, patience=setup.patience, troubled=self._connection.send)
        loop = Loop(to, setup.connections, slowed=self._connection.send)
        loop.watch(self._connection.fileno(), self._take)
        return loop


def main(handle: int) -> None:
    """Runs until the parent closes its end of the connection, whose other end is `handle`."""
    end_with_parent()
    try:
        WorkerProgram(MessageSocket(socket.socket(fileno=handle))).run()
    except NoWorkers:
        os._exit(NO_LOOP)
    except (EOFError, OSError):
        os._exit(0)  # the parent is gone, or has closed the pool


def end_with_parent() -> None:
    """Makes the kernel send SIGKILL when the parent dies, in case the loop cannot run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
