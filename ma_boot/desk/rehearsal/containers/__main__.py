"""Processes beside a rehearsal: `python -m ma_boot.desk.rehearsal.containers attach NAME`, or `guard RUN`.

`attach` is a node's container as a process, which the rehearsal supervises like any other: it starts the
container, copies its output, forwards stop signals, and exits with its code. `removing` starts `guard`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ma_boot.desk.image.container_engine import engine
from ma_boot.desk.rehearsal.containers.engine_calls import DONE, KEEP, REMOVE, remove_and_report, start
from ma_boot.errors import BootError, signal_name
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.task import Task
from ma_boot.report.console import print_bytes, print_lines

if TYPE_CHECKING:
    from docker import DockerClient

_WAIT_SECONDS = 3600.0
_SETTLE_SECONDS = 3.0  # the engine may still create what a killed rehearsal had requested


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
        print_bytes(piece)


def _attach(name: str) -> int:
    try:
        with SignalInbox() as inbox, engine(os.environ) as client:
            return 128 + inbox.stops[0] if inbox.stops else run_attached(client, name, inbox)
    except BootError as error:
        print_lines(f"ma_boot: {error}", 2)
        return int(error.exit_code)


def _guard(run: str) -> int:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    request = os.read(0, 1)
    if request != KEEP:
        remove_and_report(run, os.environ, 0.0 if request == REMOVE else _SETTLE_SECONDS)
    with contextlib.suppress(BrokenPipeError):
        os.write(1, DONE)
    return 0


if __name__ == "__main__":
    sys.exit({"attach": _attach, "guard": _guard}[sys.argv[1]](sys.argv[2]))
