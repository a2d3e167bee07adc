"""Work in a background thread, seen from the main thread."""

from __future__ import annotations

import threading
import time

import pytest

from ma_boot.errors import Stopped
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task


def until_cancelled(cancel: threading.Event) -> str:
    return "cancelled" if cancel.wait(30) else "forgotten"


def test_its_result(inbox: SignalInbox) -> None:
    task = Task("work", lambda _: 7, inbox)
    assert task.wait(lambda: None)
    assert (task.finished, task.result()) == (True, 7)


def test_its_error_is_raised_in_the_main_thread(inbox: SignalInbox) -> None:
    def work(_: object) -> None:
        raise ValueError("of the work")

    task = Task("work", work, inbox)
    assert task.wait(lambda: None)
    for ask in (task.check, task.result):
        with pytest.raises(ValueError, match="of the work"):
            ask()


def test_a_deadline_ends_the_wait_but_not_the_work(inbox: SignalInbox) -> None:
    task = Task("work", until_cancelled, inbox)
    assert not task.wait(lambda: None, time.monotonic() + 0.05)
    assert not task.finished
    task.cancel()
    assert task.wait(lambda: None)
    assert task.result() == "cancelled"


def test_finishing_wakes_the_main_thread(inbox: SignalInbox) -> None:
    began = time.monotonic()
    assert Task("work", lambda _: time.sleep(0.05), inbox).wait(lambda: None)
    assert time.monotonic() - began < 10, "not at the next reminder"


def test_exception_of_the_check_ends_the_wait(inbox: SignalInbox) -> None:
    task = Task("work", until_cancelled, inbox)
    inbox.stops.append(15)
    with pytest.raises(Stopped):
        task.wait(inbox.check)
    task.cancel()
    assert task.wait(lambda: None)
