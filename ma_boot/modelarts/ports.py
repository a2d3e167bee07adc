"""Ports that the processes will listen on: checked before anything is started."""

from __future__ import annotations

import errno
import socket
from typing import Sequence

from ma_boot.errors import ConfigError


def check_free(ports: Sequence[int]) -> None:
    """Raises `ConfigError` if this process cannot listen on one of the ports."""
    if not ports:
        return

    for port in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            # Connections of a process that has ended may still be in TIME_WAIT.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                in_use = error.errno == errno.EADDRINUSE
                why = "in use by another process" if in_use else f"not allowed ({error.strerror})"
                raise ConfigError(
                    f"rendezvous port {port}: {why}; choose another one with MABOOT_RENDEZVOUS_PORT, the "
                    "same on all nodes"
                ) from error


def free_port() -> int:
    """A port that is free at the moment, so that rehearsals on one machine do not share one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
