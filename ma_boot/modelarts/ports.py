"""Ports that the processes will listen at: taken ones are found before anything is started."""

from __future__ import annotations

import errno
import socket
from typing import Sequence

from ma_boot.errors import ConfigError


def check_free(ports: Sequence[int]) -> None:
    """Raises `ConfigError` for a port that another process of this machine listens at."""
    for port in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an ended one linger
            try:
                probe.bind(("", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    why = f"this user may not listen there ({error.strerror})"
                else:
                    why = "another process listens there"
                raise ConfigError(
                    f"port {port}, where the processes are to meet: {why}; choose another one with "
                    "--rendezvous-port, the same on all nodes"
                ) from error


def free_port() -> int:
    """A port that is free at the moment: two rehearsals on one machine must not meet."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
