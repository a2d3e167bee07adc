"""Removes a rehearsal's containers and networks, at its end and when it was killed; outlives it to do so.

The rehearsal holds the write end of a pipe to this process, and writes one byte when it is over; the kernel
closes the pipe when it dies, of SIGKILL too. It runs as `python -m ma_boot.rehearsal.containers.guard RUN`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Iterator, List, Mapping

from ma_boot.errors import BootError
from ma_boot.image import engine
from ma_boot.rehearsal.containers.container_plan import RUN_LABEL
from ma_boot.rehearsal.containers.engine_calls import removed
from ma_boot.reporting import print_lines

_REMOVE, _KEEP = b"r", b"k"
_DONE = b"d"  # the guard's answer: everything is removed or kept, or it has said what is left
_SETTLE_SECONDS = 3.0  # what a killed rehearsal had asked of the engine may be made a moment later


class Remover:
    """The rehearsal's side of the guard: whether everything is to be removed at the end."""

    def __init__(self) -> None:
        self.keep = False


@contextlib.contextmanager
def removing(run: str, environ: Mapping[str, str]) -> Iterator[Remover]:
    """While the block runs, a guard stands by; after it, all that bears the run's label is removed.

    Only after a block that set `keep` everything stays.
    """
    remover = Remover()
    process = subprocess.Popen(
        [sys.executable, "-m", "ma_boot.rehearsal.containers.guard", run],
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield remover
    finally:
        said, _ = process.communicate(_KEEP if remover.keep else _REMOVE)
        # Not done: somebody has killed it; its exit code may have gone to the reaper of orphans.
        if said != _DONE and not remover.keep:
            _remove(run, environ, 0.0)


def _guard(run: str) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    asked = os.read(0, 1)
    if asked != _KEEP:
        _remove(run, os.environ, 0.0 if asked == _REMOVE else _SETTLE_SECONDS)
    with contextlib.suppress(BrokenPipeError):
        os.write(1, _DONE)


def _remove(run: str, environ: Mapping[str, str], settle_seconds: float) -> None:
    """Removes what bears the run's label, and says what is left if something is."""
    try:
        with engine(environ) as client:
            left = removed(client, run, settle_seconds)
    except (BootError, OSError) as error:  # a RequestException is an OSError
        left = [str(error)]
    if left:
        _complain(run, left)


def _complain(run: str, left: List[str]) -> None:
    print_lines(
        f"[ma_boot] not everything of this rehearsal could be removed: {', '.join(left)}\n"
        f"  see docker ps --all --filter label={RUN_LABEL}={run}, and the same of docker network ls",
        2,
    )


if __name__ == "__main__":
    _guard(sys.argv[1])
