"""Looks up addresses by host name; the DNS entry of a worker may be created after this node starts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Callable

from ma_boot.errors import ConfigError
from ma_boot.processes import SignalInbox, Task

if TYPE_CHECKING:
    from tenacity import RetryCallState


def address_of(host: str, timeout: float, say: Callable[[str], None], inbox: SignalInbox) -> str:
    """The host's IPv4 address, retried for `timeout` seconds.

    Raises `ConfigError` if it has none by then, `Stopped` at a stop signal.
    """
    import socket  # only jobs of several nodes need these

    import tenacity

    def tell(state: RetryCallState) -> None:
        if state.attempt_number == 1 or state.attempt_number % 10 == 0:
            say(f"{host} has no address yet (attempt {state.attempt_number})")

    def look_up(cancel: threading.Event) -> str:
        policy = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(OSError),
            stop=tenacity.stop_after_delay(timeout) | tenacity.stop_when_event_set(cancel),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=3),
            sleep=tenacity.sleep_using_event(cancel),
            before_sleep=tell,
            reraise=True,
        )
        return str(policy(socket.getaddrinfo, host, None, socket.AF_INET)[0][4][0])

    task = Task("resolve", look_up, inbox)
    try:
        task.wait(inbox.check)
        return task.result()
    except UnicodeError as error:  # of the codec for names in DNS
        raise ConfigError(
            f"the host {host!r} of VC_WORKER_HOSTS is no name for DNS ({error}): expected 1 to 63 characters "
            "between two dots"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"the first host of VC_WORKER_HOSTS, {host}, has no address after {timeout:.0f} s: {error}"
        ) from error
    finally:
        task.cancel()


def own_address() -> str:
    """The IPv4 address of this host's name; raises `ConfigError` if it has none."""
    import socket

    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError as error:
        raise ConfigError(f"this host's name has no address ({error}): give --server-id") from error
