"""A worker process: takes batches from its parent, and ends with it, however that ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Callable, Tuple

from path_mapping.stores import Access, Credentials
from path_mapping.stores.exchange import Lines
from path_mapping.stores.units import Batch
from path_mapping.workers.rate_limit import Pace
from path_mapping.workers.thread_pool import Outcomes, Threads

_PR_SET_PDEATHSIG = 1
IDLE_SECONDS = 3600.0


def threads_on_the_data_path(
    access: Access, number: int, moved: Callable[[int, int], None], pace: Pace
) -> Threads:
    """A crew of this process, with clients of its own."""
    from path_mapping.stores.data_path import BUFFER, DataPath  # imports the SDK: slow
    from path_mapping.stores.exchange import Exchange
    from path_mapping.stores.obs_store import ObsStore

    store, lines = ObsStore.of(access), Lines()

    def new_path() -> DataPath:
        buffer = bytearray(BUFFER)
        return DataPath(store, Exchange(store, access.timeout, lines, buffer), buffer)

    return Threads(number, new_path, moved, pace, store.use, lines.end)


def main(handle: int) -> None:
    """The process's whole life; `handle` is its end of a connection to its parent."""
    end_with_parent()
    connection = Connection(handle)
    sending = threading.Lock()

    def say(message: object) -> None:
        with sending:
            try:
                connection.send(message)
            except OSError:
                os._exit(0)  # nobody hears

    setup: Tuple[Access, int] = connection.recv()
    pace = Pace(told=say)
    crew = threads_on_the_data_path(setup[0], setup[1], lambda number, size: None, pace)
    threading.Thread(target=_listen, args=(connection, crew, pace), daemon=True).start()
    while True:
        done: Outcomes = crew.outcomes(IDLE_SECONDS)
        if done:
            say(done)


def _listen(connection: Connection, crew: Threads, pace: Pace) -> None:
    """Takes what the parent says, until it says no more; then this process ends at once."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = connection.recv()
            if isinstance(message, list):
                batch: Batch = message
                crew.submit(batch)
            elif isinstance(message, Credentials):
                crew.use(message)
            else:
                pace.slower(message)
    os._exit(0)


def end_with_parent() -> None:
    """SIGKILL when the parent dies, beside the connection's end: that needs a thread that gets to run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
