"""The program `ma_boot`, also as `python -m ma_boot`."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import NoReturn

gc.set_threshold(50_000)  # what is imported is no garbage: to look through it takes a start 6 ms of 100

from ma_boot.cli.app import main  # noqa: E402 -- or it would be looked through


def run() -> NoReturn:
    """Runs the command and exits with its code, without taking the interpreter apart first.

    That takes longer than a stop may: some 10 ms. Everything is written and closed by then; threads that are
    still waiting for the network are daemons.
    """
    _open_standard_streams()
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader has gone
            if stream is not None:  # as it was closed at the start
                stream.flush()
    os._exit(code)


def _open_standard_streams() -> None:
    """Opens /dev/null as those that are closed (`>&-`): the next file would be standard output otherwise."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor


if __name__ == "__main__":
    run()
