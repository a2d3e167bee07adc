"""Network of this node: addresses of hosts, and free ports."""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable

from ma_boot.errors import ConfigError
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.wording import Message

if TYPE_CHECKING:
    from tenacity import RetryCallState


def address_of(host: str, timeout: float, say: Callable[[str], None], inbox: SignalInbox) -> str:
    """Returns the host's address, preferably of IPv4; retries for `timeout` seconds.

    An address is returned as it is, with the interface of a local one (`fe80::1%eth0`). One of IPv6 has no
    brackets, as `torch.distributed.TCPStore` and MindSpore expect it. Raises `ConfigError` if the host has no
    address by then, `Stopped` at a stop signal.
    """
    if _is_address(host):
        return host
    import tenacity

    def report(state: RetryCallState) -> None:
        if state.attempt_number == 1 or state.attempt_number % 10 == 0:
            say(f"{host} has no address yet (attempt {state.attempt_number})")

    def look_up(cancel: threading.Event) -> str:
        policy = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(OSError),
            stop=tenacity.stop_after_delay(timeout) | tenacity.stop_when_event_set(cancel),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=3),
            sleep=tenacity.sleep_using_event(cancel),
            before_sleep=report,
            reraise=True,
        )
        addresses = policy(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        return str(min(addresses, key=lambda entry: entry[0] != socket.AF_INET)[4][0])

    missing = "the first host of VC_WORKER_HOSTS, {}, has no address after {} s: {}"
    seconds = f"{timeout:.0f}"
    task = Task("resolve", look_up, inbox)
    # A name server that does not answer may block one look-up for longer than the timeout.
    try:
        if not task.wait(inbox.check, time.monotonic() + timeout, lambda: say(f"{host} has no address yet")):
            silence = Message("the name server does not answer")
            raise ConfigError(Message.of(missing, host, seconds, silence))
        return task.result()
    except UnicodeError as error:
        # Python encodes names for DNS by the codec IDNA.
        raise ConfigError(
            f"the host {host!r} of VC_WORKER_HOSTS is no name for DNS ({error}): expected 1 to 63 characters "
            "between two dots"
        ) from error
    except OSError as error:
        raise ConfigError(Message.of(missing, host, seconds, error)) from error
    finally:
        task.cancel()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def own_address() -> str:
    """Returns the IPv4 address of this host's name; raises `ConfigError` if it has none."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError as error:
        raise ConfigError(f"this host's name has no address ({error}): give --server-id") from error


def check_free(ports: Sequence[int]) -> None:
    """Raises `ConfigError` if this process cannot listen on one of the ports."""
    for port in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # Connections of a process that has ended may still be in TIME_WAIT.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                why = Message.of("not allowed ({})", error.strerror)
                if error.errno == errno.EADDRINUSE:
                    why = Message("in use by another process")
                raise ConfigError(
                    Message.of(
                        "rendezvous port {}: {}; choose another one with MABOOT_RENDEZVOUS_PORT, the "
                        "same on all nodes",
                        port,
                        why,
                    )
                ) from error


def free_port() -> int:
    """Returns a port that is free now, so that rehearsals on one machine do not share one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
