"""The program `ma_boot`, also as `python -m ma_boot`."""

from __future__ import annotations

import os
import signal


def _end_at_once(signum: int, frame: object) -> None:
    """Exits as a shell reports it; runs before anything is started, or after everything has ended."""
    os._exit(128 + signum)


# Before any other import. The kernel drops signals that the first process of a container does not handle, and
# Python turns a Ctrl-C into a traceback of the import that it meets. A job's `SignalInbox` takes both over.
_HANDLED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT) if os.getpid() == 1 else ()
for _signum in (signal.SIGINT, *_HANDLED):
    if signal.getsignal(_signum) in (signal.SIG_DFL, signal.default_int_handler):  # not: ignored, as by nohup
        signal.signal(_signum, _end_at_once)

import contextlib  # noqa: E402
import gc  # noqa: E402
import sys  # noqa: E402
from typing import NoReturn  # noqa: E402

gc.set_threshold(50_000)  # imports make no garbage: searching them would take 6 ms of a start's 100

from ma_boot.cli.app import main  # noqa: E402 -- or it would be searched


def run() -> NoReturn:
    """Runs the command and exits with its code, without taking the interpreter apart first.

    That would need some 10 ms, longer than a stop may. Everything is written and closed by then; threads that
    still wait for the network are daemons.
    """
    _open_standard_streams()
    handled = signal.getsignal(signal.SIGINT) is _end_at_once
    if handled:  # commands clean up as they end by a Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = main()
    if handled:
        signal.signal(signal.SIGINT, _end_at_once)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader has gone
            if stream is not None:  # as it was closed at the start
                stream.flush()
    os._exit(code)


def _open_standard_streams() -> None:
    """Opens /dev/null in place of closed ones (`>&-`): the next file would be standard output otherwise."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor


if __name__ == "__main__":
    run()
