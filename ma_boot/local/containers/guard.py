"""Removes a rehearsal's containers and networks, at its end and when it was killed; outlives it to do so.

The rehearsal holds the write end of a pipe to this process, and writes one byte when it is over; the kernel
closes the pipe when it dies, of SIGKILL too. It runs as `python -m ma_boot.local.containers.guard RUN`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Iterator, List, Mapping

from ma_boot.console import print_lines
from ma_boot.errors import BootError
from ma_boot.image.engine import engine
from ma_boot.local.containers.create import removed
from ma_boot.local.containers.plan import LABEL

_REMOVE, _KEEP = b"r", b"k"
_SETTLE_SECONDS = 3.0  # what a killed rehearsal had asked of the engine may be made a moment later


class Remover:
    """The rehearsal's side of the guard: whether everything is to be removed at the end."""

    def __init__(self) -> None:
        self.keep = False


@contextlib.contextmanager
def removing(run: str, environ: Mapping[str, str]) -> Iterator[Remover]:
    """While the block runs, a guard stands by; after it, all that bears the run's label is removed.

    Only after a block that ended well and said so, by `keep`, everything stays.
    """
    remover = Remover()
    process = subprocess.Popen(
        [sys.executable, "-m", "ma_boot.local.containers.guard", run],
        env=dict(environ),
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield remover
    except BaseException:
        remover.keep = False
        raise
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.communicate(_KEEP if remover.keep else _REMOVE)
        process.wait()


def _guard(run: str) -> int:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
    asked = os.read(0, 1)
    if asked == _KEEP:
        return 0
    try:
        with engine(dict(os.environ)) as client:
            left = removed(client, run, 0.0 if asked == _REMOVE else _SETTLE_SECONDS)
    except BootError as error:
        left = [str(error)]
    if left:
        _complain(run, left)
    return 1 if left else 0


def _complain(run: str, left: List[str]) -> None:
    text = "\n".join(left)
    print_lines(
        f"[ma_boot] not everything of this rehearsal could be removed: {text}\n"
        f"  see docker ps --all --filter label={LABEL}={run}, and the same of docker network ls",
        2,
    )


if __name__ == "__main__":
    sys.exit(_guard(sys.argv[1]))
