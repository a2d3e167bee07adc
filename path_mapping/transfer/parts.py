"""Sizes of a transfer: ranges and parts of files, threads and processes of the pool. Pure."""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

MIB = 1 << 20
# Bytes: larger objects are downloaded in ranges of RANGE bytes.
RANGES_FROM = 32 * MIB
RANGE = 16 * MIB
# Parts of an upload: OBS accepts 10,000 (API reference, "Uploading Parts").
MOST_PARTS = 9_000

# Fewer files, with fewer bytes, are moved before another process has started.
ALONE_FILES = 400
ALONE_BYTES = 256 * MIB
# Threads of such a transfer, and files for each of them.
ALONE_THREADS = 16
FILES_PER_THREAD = 4
# Processes that can make all the requests that OBS answers: benchmarks/README.md.
MOST_PROCESSES = 8
# Threads of all processes together.
MOST_THREADS = 128
LEAST_THREADS = 8
# Threads of a process if the round trip is short: more would only take turns at the GIL.
THREADS_EACH = 4
# The same for uploads: with fewer of them a process waits for the answers, see benchmarks/README.md.
SENDING_EACH = 8
# Average bytes of an object below which the round trip takes longer than the content.
SMALL = 256 << 10
# Average bytes of a piece above which the kernel does nearly all the work, so that the GIL is no limit.
LARGE_PIECES = 8 * MIB
# Requests per second that a process can make (benchmarks/README.md), also if its threads send them ahead.
REQUESTS_EACH = 2_000
AHEAD_EACH = 4_000
# Requests in flight of each thread that sends ahead: fewer of them cost more switches between threads.
LEAST_AHEAD = 8
# Requests in flight of all processes together, if they are sent ahead.
MOST_IN_FLIGHT = 192
# Least files for each connection, if requests are sent ahead: a handshake costs several requests.
FILES_PER_CONNECTION = 16
# Requests per second that OBS answers to an account.
REQUESTS_OF_OBS = 10_000

# Large files that are downloaded at once: threads that write to one take turns at its lock in the kernel, and
# wait busily, for a sixth of the CPU time. Uploads go one by one: the first is whole soon.
DOWN_ABREAST = 4
# Files that a thread gets at once, at most, and bytes after which it gets no more. Each batch wakes up two
# processes, so that batches of single files would cost CPU time.
BATCH = 64
BATCH_BYTES = RANGE


class Span(NamedTuple):
    """A range of bytes in a file."""

    offset: int
    length: int


def part_size(size: int, least: int) -> int:
    """Returns the size of each part but the last, in bytes: `least`, or more if those were too many parts."""
    return max(least, math.ceil(size / MOST_PARTS / MIB) * MIB)


def spans(size: int, part: int) -> list[Span]:
    """Cuts a file into consecutive parts, which cover it exactly."""
    return [Span(offset, min(part, size - offset)) for offset in range(0, size, part)]


def identity(*of: object) -> str:
    """Returns a short name for one version of one object, the same in every run."""
    return hashlib.sha256("\0".join(map(str, of)).encode("utf-8", "surrogateescape")).hexdigest()[:16]


class PoolSize(NamedTuple):
    """Worker processes with some threads each; 0 processes stand for threads of the own process.

    Each thread requests so many objects `ahead` of the one that it reads.
    """

    processes: int
    threads: int
    ahead: int = 0


def is_small(files: int, size: int) -> bool:
    """Tells whether a transfer is over before another process has started."""
    return files < ALONE_FILES and size < ALONE_BYTES


def pool_size(
    files: int, size: int, cores: int, round_trip: float, ahead: bool = False, decrypts: bool = False
) -> PoolSize:
    """Returns the pool for so many files (or parts) and bytes; `round_trip` is a small request's, in seconds.

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
    """Returns the number of small files that a thread gets at once, with `left` files left: fewer in the end.

    But not fewer than it requests `together`: after each batch it waits for a round trip.
    """
    return max(1, min(together, left), min(BATCH, left // (2 * room)))


def parts_that_count(stored: tuple[tuple[int, int, str], ...], planned: list[Span]) -> list[str]:
    """Returns the ETag of each planned part that is stored with its size, empty for the others."""
    known = {number: (length, etag) for number, length, etag in stored}
    etags = []
    for number, span in enumerate(planned, start=1):
        length, etag = known.get(number, (-1, ""))
        etags.append(etag if length == span.length else "")
    return etags
