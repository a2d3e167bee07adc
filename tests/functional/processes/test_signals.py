"""The inbox for signals."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ma_boot.errors import Stopped
from ma_boot.processes.signals import SignalInbox


def test_a_stop_signal_is_recorded_and_wakes() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with SignalInbox() as inbox:
        inbox.check()
        os.kill(os.getpid(), signal.SIGTERM)
        began = time.monotonic()
        inbox.wait(30)
        assert time.monotonic() - began < 10
        with pytest.raises(Stopped):
            inbox.check()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_wait_with_many_descriptors(many_descriptors: None) -> None:
    with SignalInbox() as inbox:
        assert inbox.fileno() > 1023
        inbox.wake()
        began = time.monotonic()
        inbox.wait(30)
        assert time.monotonic() - began < 10
        inbox.wait(0.01)  # nothing has arrived since


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """1,100 descriptors are in use."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    used = [os.dup(0) for _ in range(1100)]
    yield
    for descriptor in used:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_wake_up_after_the_end_writes_to_no_other_pipe() -> None:
    with SignalInbox() as inbox:
        pass
    read, write = os.pipe()  # reuses the inbox's descriptors
    inbox.wake()
    assert select.select([read], [], [], 0)[0] == []
    os.close(read)
    os.close(write)


def test_a_thread_that_wakes_it_while_it_is_closed_has_no_error() -> None:
    """A task may end at that very moment."""
    errors = []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            inbox, entered, over = SignalInbox(), threading.Event(), threading.Event()

            def waking(
                inbox: SignalInbox = inbox, entered: threading.Event = entered, over: threading.Event = over
            ) -> None:
                entered.wait()
                try:
                    while not over.is_set():
                        inbox.wake()
                except BaseException as error:
                    errors.append(error)

            thread = threading.Thread(target=waking)
            thread.start()
            with inbox:
                entered.set()
                inbox.wait(0)
            over.set()
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert errors == []
