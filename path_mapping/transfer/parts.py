"""The sizes of a transfer: ranges and parts of files, threads and processes of the pool. Pure."""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

MIB = 1 << 20
RANGES_FROM = 32 * MIB  # larger objects are downloaded in ranges
RANGE = 16 * MIB
MOST_PARTS = 9_000  # OBS accepts 10,000 (API reference, "Uploading Parts")

ALONE_FILES = 400  # fewer are done before another process has started
ALONE_BYTES = 256 * MIB
MOST_PROCESSES = 8  # so many can make all the requests that OBS answers: benchmarks/README.md
MOST_THREADS = 128  # of all processes together
LEAST_THREADS = 8  # of all processes together
THREADS_EACH = 4  # more only take turns at the GIL, if the round trip is short
SENDING_EACH = 8  # with fewer of them a process waits for the answers: benchmarks/README.md
ALONE_THREADS = 16
FILES_PER_THREAD = 4
SMALL = 256 << 10  # bytes on average: the round trip, not the content, is what an object takes
LARGE_PIECES = 8 * MIB  # on average: the kernel does nearly all the work, the GIL is no limit
REQUESTS_EACH = 2_000  # per second, the most that a process can make: benchmarks/README.md
AHEAD_EACH = 4_000  # the same, if its threads send requests ahead
LEAST_AHEAD = 8  # requests in flight of each thread: fewer switches, however short the round trip is
MOST_IN_FLIGHT = 192  # requests of all processes together, if they are sent ahead
FILES_PER_CONNECTION = 16  # at least, if they are sent ahead: a handshake costs several requests
REQUESTS_OF_OBS = 10_000  # per second, the most that OBS answers to an account

# Large files that are downloaded at once: threads that write to one take turns at its lock in the kernel, and
# wait busily, for a sixth of the CPU time. Uploads go one by one: the first is whole soon.
DOWN_ABREAST = 4
BATCH = 64  # files that a thread gets at once, at most
BATCH_BYTES = RANGE  # no more once it has so many; each batch wakes up two processes


class Span(NamedTuple):
    """A range of bytes in a file."""

    offset: int
    length: int


def part_size(size: int, least: int) -> int:
    """The size of each part but the last, in bytes: `least`, or more if that would be too many parts."""
    return max(least, math.ceil(size / MOST_PARTS / MIB) * MIB)


def spans(size: int, part: int) -> list[Span]:
    """The file cut into consecutive parts, which cover it exactly."""
    return [Span(offset, min(part, size - offset)) for offset in range(0, size, part)]


def identity(*of: object) -> str:
    """A short name for one version of one object, the same in every run."""
    return hashlib.sha256("\0".join(map(str, of)).encode("utf-8", "surrogateescape")).hexdigest()[:16]


class PoolSize(NamedTuple):
    """Worker processes with some threads each; 0 processes stand for threads of this one.

    Each thread asks for so many objects `ahead` of the one that it reads.
    """

    processes: int
    threads: int
    ahead: int = 0


def is_small(files: int, size: int) -> bool:
    """True for work that is done before another process has started."""
    return files < ALONE_FILES and size < ALONE_BYTES


def pool_size(
    files: int, size: int, cores: int, round_trip: float, ahead: bool = False, decrypts: bool = False
) -> PoolSize:
    """The pool for so many files (or parts) and bytes; `round_trip` is a small request's, in seconds.

    Threads wait for the network, so there are as many as the processes can have requests in flight during a
    round trip. Processes compute, so there are as many as cores. If requests may be sent `ahead`, small
    objects take few threads: many of a process take turns at the GIL with each call of the system. So do
    threads with large pieces if the process `decrypts` them: Python reads 16 KiB of TLS at a time.
    """
    if is_small(files, size):
        return PoolSize(0, max(1, min(ALONE_THREADS, files // FILES_PER_THREAD)))
    computes = decrypts or size < files * LARGE_PIECES
    processes = max(1, min(cores, MOST_PROCESSES)) if computes else 1
    others = processes if processes > 1 else 0
    if ahead and size <= files * SMALL:
        threads = THREADS_EACH * processes
        in_flight = math.ceil(min(AHEAD_EACH * processes, REQUESTS_OF_OBS) * round_trip)
        wanted = min(max(in_flight, LEAST_AHEAD * threads), MOST_IN_FLIGHT, files // FILES_PER_CONNECTION)
        return PoolSize(others, THREADS_EACH, max(1, wanted // threads) - 1)
    in_flight = math.ceil(min(REQUESTS_EACH * processes, REQUESTS_OF_OBS) * round_trip)
    each = SENDING_EACH if computes and not ahead else THREADS_EACH
    wanted = max(LEAST_THREADS, each * processes, in_flight)
    return PoolSize(others, max(1, min(wanted, MOST_THREADS, files) // processes))


def batch_limit(left: int, room: int, together: int) -> int:
    """The number of small files that a thread gets at once, with `left` files left: fewer towards the end.

    But not fewer than it asks for together: after each batch it waits for a round trip.
    """
    return max(1, min(together, left), min(BATCH, left // (2 * room)))


def parts_that_count(stored: tuple[tuple[int, int, str], ...], planned: list[Span]) -> list[str]:
    """The ETag of each planned part that was found with this size, empty for the others."""
    known = {number: (length, etag) for number, length, etag in stored}
    etags = []
    for number, span in enumerate(planned, start=1):
        length, etag = known.get(number, (-1, ""))
        etags.append(etag if length == span.length else "")
    return etags
