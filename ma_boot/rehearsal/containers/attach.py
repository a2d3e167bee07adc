"""A node's container as a process: starts it, copies its output, forwards stop signals, exits with its code.

So the rehearsal supervises containers like processes: `python -m ma_boot.rehearsal.containers.attach NAME`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Iterable, Mapping

from ma_boot.errors import BootError, signal_name
from ma_boot.image import engine
from ma_boot.processes import SignalInbox, Task
from ma_boot.rehearsal.containers.engine_calls import start
from ma_boot.reporting import print_lines

if TYPE_CHECKING:
    from docker import DockerClient

_WAIT_SECONDS = 3600.0


def run_attached(client: DockerClient, name: str, inbox: SignalInbox) -> int:
    """Runs a created container and returns its exit code; raises `BootError` if it cannot be started."""
    from docker.errors import APIError

    container = client.containers.get(name)
    stream = container.attach(stream=True)  # before the start, so that no output is missed
    start(client, name)
    output = Task("output", lambda cancel: _copy(stream, cancel), inbox)
    forwarded = 0
    while not output.finished:
        inbox.wait(_WAIT_SECONDS)
        for signum in inbox.stops[forwarded:]:
            forwarded += 1
            with contextlib.suppress(APIError):  # it has just ended
                container.kill(signal_name(signum))
    code = int(container.wait()["StatusCode"])
    container.reload()
    state = container.attrs["State"]
    if state.get("OOMKilled"):
        limit = container.attrs["HostConfig"].get("Memory") or 0
        allowed = f"; it may use {limit >> 20} MiB (MABOOT_MEMORY)" if limit else ""
        print_lines(f"[ma_boot] a process of this node was OOM-killed{allowed}")
    return code


def _copy(stream: Iterable[bytes], cancel: threading.Event) -> None:
    for piece in stream:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(1, rest) :]


def _run(name: str, environ: Mapping[str, str]) -> int:
    try:
        with SignalInbox() as inbox, engine(environ) as client:
            return 128 + inbox.stops[0] if inbox.stops else run_attached(client, name, inbox)
    except BootError as error:
        print_lines(f"ma_boot: {error}", 2)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1], dict(os.environ)))
