"""Removes the containers and networks of a rehearsal at its end, even if the rehearsal is killed.

The rehearsal holds the write end of a pipe to this process and writes one byte at its end; if it is killed,
the kernel closes the pipe. The guard runs as `python -m ma_boot.rehearsal.containers.guard RUN`.
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
from ma_boot.processes import GUARD, MARKER_VARIABLE
from ma_boot.rehearsal.containers.container_plan import RUN_LABEL
from ma_boot.rehearsal.containers.engine_calls import remove_run
from ma_boot.reporting import print_lines

_REMOVE, _KEEP = b"r", b"k"
_DONE = b"d"  # the answer of the guard: it has finished, and has reported what it could not remove
_SETTLE_SECONDS = 3.0  # the engine may still create what a killed rehearsal had requested


class Remover:
    """Tells the guard what to do at the end: remove everything, or `keep` it."""

    def __init__(self) -> None:
        self.keep = False


@contextlib.contextmanager
def removing(run: str, environ: Mapping[str, str]) -> Iterator[Remover]:
    """Removes everything with the label of the run after the block, unless the block sets `keep`.

    A guard process does so, even if this process is killed.
    """
    remover = Remover()
    process = subprocess.Popen(
        [sys.executable, "-m", "ma_boot.rehearsal.containers.guard", run],
        env={**environ, MARKER_VARIABLE: GUARD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield remover
    finally:
        answer, _ = process.communicate(_KEEP if remover.keep else _REMOVE)
        # The guard was killed. Its exit code tells nothing: the reaper of orphans may have collected it.
        if answer != _DONE and not remover.keep:
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
    """Removes everything with the label of the run, and reports what is left."""
    try:
        with engine(environ) as client:
            left = remove_run(client, run, settle_seconds)
    except (BootError, OSError) as error:  # a RequestException is an OSError
        left = [str(error)]
    if left:
        _complain(run, left)


def _complain(run: str, left: List[str]) -> None:
    print_lines(
        f"[ma_boot] could not remove everything of this rehearsal: {', '.join(left)}\n"
        f"  see docker ps --all --filter label={RUN_LABEL}={run}, and docker network ls with the same filter",
        2,
    )


if __name__ == "__main__":
    _guard(sys.argv[1])
