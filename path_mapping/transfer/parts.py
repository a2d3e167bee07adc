"""How files are cut and who moves the pieces: ranges, parts, threads and processes. Pure."""

from __future__ import annotations

import hashlib
import math
from typing import List, NamedTuple, Tuple

MIB = 1 << 20
RANGES_FROM = 32 * MIB  # objects of more bytes are fetched in ranges
RANGE = 16 * MIB
MOST_PARTS = 9_000  # a service takes 10,000

ALONE_FILES = 400  # less is done before a process has started
ALONE_BYTES = 256 * MIB
MOST_PROCESSES = 4
MOST_THREADS = 128  # in all
THREADS_EACH = 8
ALONE_THREADS = 16
FILES_PER_THREAD = 4
# The mean from which on the kernel does nearly all: the interpreter's lock is no limit.
LARGE_PIECES = 8 * MIB
REQUESTS_PER_SECOND = 5_000  # that all processes together are good for

BATCH = 16
BATCH_BYTES = 2 * MIB


class Span(NamedTuple):
    """Bytes of a file."""

    offset: int
    length: int


def part_size(size: int, least: int) -> int:
    """The size of each part of a file but the last: `least`, or more where that would be too many parts."""
    return max(least, math.ceil(size / MOST_PARTS / MIB) * MIB)


def spans(size: int, part: int) -> List[Span]:
    """The file cut into parts; they follow each other and cover it exactly."""
    return [Span(offset, min(part, size - offset)) for offset in range(0, size, part)]


def identity(*of: object) -> str:
    """A short name for one version of one object, the same in every run."""
    return hashlib.sha256("\0".join(map(str, of)).encode("utf-8", "surrogateescape")).hexdigest()[:16]


class Size(NamedTuple):
    """A crew: 0 processes means threads of this one."""

    processes: int
    threads: int


def is_small(files: int, size: int) -> bool:
    """True for work that is done before other processes have started."""
    return files < ALONE_FILES and size < ALONE_BYTES


def crew_size(files: int, size: int, cores: int, round_trip: float) -> Size:
    """Who moves so many files (or parts of files) and bytes; `round_trip` in seconds, of a small request.

    Threads wait for the network, so there are as many as requests that the processes can have under way in
    that time; processes compute, so there are as many as cores.
    """
    if is_small(files, size):
        return Size(0, max(1, min(ALONE_THREADS, files // FILES_PER_THREAD)))
    processes = max(1, min(cores, MOST_PROCESSES)) if size < files * LARGE_PIECES else 1
    wanted = max(THREADS_EACH * processes, math.ceil(REQUESTS_PER_SECOND * round_trip))
    threads = max(1, min(wanted, MOST_THREADS, files) // processes)
    return Size(processes, threads) if processes > 1 else Size(0, threads)


def batch_limit(left: int, room: int) -> int:
    """How many small files go to a thread at once, with so many left: fewer towards the end."""
    return max(1, min(BATCH, left // (2 * room)))


def parts_that_count(found: Tuple[Tuple[int, int, str], ...], planned: List[Span]) -> List[str]:
    """The ETag of each planned part that is there already in this size, empty for the others."""
    known = {number: (length, etag) for number, length, etag in found}
    etags = []
    for number, span in enumerate(planned, start=1):
        length, etag = known.get(number, (-1, ""))
        etags.append(etag if length == span.length else "")
    return etags
