"""One rank of a benchmark: waits until all ranks are there, then does what the measurement asks for.

    python -I -S rank.py MODE DIRECTORY [LINES]

It takes its number from the variable that the launcher sets, and ends after `LONGEST_SECONDS` whatever
becomes of the launcher. In DIRECTORY it leaves `ready.R` with its process id and `moment.R` with the time
(`time.monotonic()`) at which it failed or began to write.
"""

from __future__ import annotations

import os
import signal
import sys
import time

COUNT = 8
FAILING = 3
FAILURE_CODE = 7
LONGEST_SECONDS = 100.0
LINE_BYTES = 100
FILLING_BYTES = LINE_BYTES - len("<0#00000000#0000000>\n")
_WRITE_BYTES = 1 << 16
_NUMBERS = ("RANK_ID", "RANK", "OMPI_COMM_WORLD_RANK")


def main() -> None:
    """Runs the rank."""
    mode, directory = sys.argv[1:3]
    if os.environ.get("MS_ROLE") == "MS_SCHED":
        return  # msrun starts the command once more, as its scheduler
    rank = next(int(os.environ[name]) for name in _NUMBERS if name in os.environ)
    until = time.monotonic() + LONGEST_SECONDS
    if mode == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    lines = _lines(rank, int(sys.argv[3])) if mode == "write" else b""
    _mark(directory, "ready", rank, os.getpid())
    _wait_for_all(directory, "ready", until)
    if mode == "write":
        _mark(directory, "moment", rank, time.monotonic())
        _write(lines)
        _mark(directory, "written", rank, "")
        _wait_for_all(directory, "written", until)  # honcho ends all when the first has ended
    elif mode == "fail" and rank == FAILING:
        _mark(directory, "moment", rank, time.monotonic())
        os._exit(FAILURE_CODE)
    else:
        while time.monotonic() < until:
            time.sleep(until - time.monotonic())


def _lines(rank: int, count: int) -> bytes:
    """Numbered lines, the number at both ends: a line put together from two is found out."""
    filling = b"x" * FILLING_BYTES
    names = (b"%d#%07d" % (rank, number) for number in range(count))
    return b"".join(b"<%s%s%s>\n" % (name, filling, name) for name in names)


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest[:_WRITE_BYTES]) :]


def _mark(directory: str, name: str, rank: int, value: object) -> None:
    with open(f"{directory}/{name}.{rank}.new", "w") as file:
        file.write(str(value))
    os.rename(f"{directory}/{name}.{rank}.new", f"{directory}/{name}.{rank}")


def _wait_for_all(directory: str, name: str, until: float) -> None:
    wanted = [f"{directory}/{name}.{rank}" for rank in range(COUNT)]
    while not all(map(os.path.exists, wanted)):
        if time.monotonic() > until:
            sys.exit(f"not all of {wanted[0]} and its like came")
        time.sleep(0.005)


if __name__ == "__main__":
    main()
