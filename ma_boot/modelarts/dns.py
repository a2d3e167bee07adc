"""The address of a worker by its name; its DNS entry may come later than this node."""

from __future__ import annotations

import socket
import threading
from typing import Callable

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_delay,
    stop_when_event_set,
    wait_random_exponential,
)

from ma_boot.errors import ConfigError
from ma_boot.processes import SignalInbox, Task


def address_of(host: str, timeout: float, say: Callable[[str], None], inbox: SignalInbox) -> str:
    """The host's IPv4 address, asked for again for `timeout` seconds; raises `ConfigError` or `Stopped`."""

    def tell(state: RetryCallState) -> None:
        if state.attempt_number == 1 or state.attempt_number % 10 == 0:
            say(f"{host} has no address yet (asked {state.attempt_number} times)")

    def look_up(cancel: threading.Event) -> str:
        policy = Retrying(
            retry=retry_if_exception_type(OSError),
            stop=stop_after_delay(timeout) | stop_when_event_set(cancel),
            wait=wait_random_exponential(multiplier=0.1, max=3),
            sleep=sleep_using_event(cancel),
            before_sleep=tell,
            reraise=True,
        )
        return str(policy(socket.getaddrinfo, host, None, socket.AF_INET)[0][4][0])

    task = Task("resolve", look_up, inbox)
    try:
        task.wait(inbox.check)
        return task.result()
    except OSError as error:
        raise ConfigError(
            f"the first host of VC_WORKER_HOSTS, {host}, has no address after {timeout:.0f} s: {error}"
        ) from error
    finally:
        task.cancel()
