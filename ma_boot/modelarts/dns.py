"""Looks up addresses by host name; the DNS entry of a worker may be created after this node starts."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from typing import TYPE_CHECKING, Callable

from ma_boot.errors import ConfigError
from ma_boot.processes import SignalInbox, Task

if TYPE_CHECKING:
    from tenacity import RetryCallState


def address_of(host: str, timeout: float, say: Callable[[str], None], inbox: SignalInbox) -> str:
    """The host's address, that of IPv4 if it has both, retried for `timeout` seconds.

    An address is returned as it is, with the interface of a local one (`fe80::1%eth0`); one of IPv6 has no
    brackets, as `torch.distributed.TCPStore` and MindSpore take it. Raises `ConfigError` if the host has none
    by then, `Stopped` at a stop signal.
    """
    if _is_address(host):
        return host
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
        found = policy(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        return str(min(found, key=lambda one: one[0] != socket.AF_INET)[4][0])

    missing = f"the first host of VC_WORKER_HOSTS, {host}, has no address after {timeout:.0f} s"
    task = Task("resolve", look_up, inbox)
    try:  # a name server that does not answer holds a single look-up for longer
        if not task.wait(inbox.check, time.monotonic() + timeout, lambda: say(f"{host} has no address yet")):
            raise ConfigError(f"{missing}: the name server does not answer")
        return task.result()
    except UnicodeError as error:  # of the codec for names in DNS
        raise ConfigError(
            f"the host {host!r} of VC_WORKER_HOSTS is no name for DNS ({error}): expected 1 to 63 characters "
            "between two dots"
        ) from error
    except OSError as error:
        raise ConfigError(f"{missing}: {error}") from error
    finally:
        task.cancel()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def own_address() -> str:
    """The IPv4 address of this host's name; raises `ConfigError` if it has none."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError as error:
        raise ConfigError(f"this host's name has no address ({error}): give --server-id") from error
