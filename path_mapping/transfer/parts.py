"""Sizes of a transfer: ranges and parts of files, connections and processes of the pool. Pure."""

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
# Connections of such a transfer, and files for each of them.
ALONE_CONNECTIONS = 16
FILES_PER_ALONE = 4
# Processes that can make all the requests that OBS answers: benchmarks/RESULTS.md.
MOST_PROCESSES = 8
# Connections of a process, if the round trip is short: the server works at some, this side at others.
CONNECTIONS_EACH = 8
# The same if their average piece has so many bytes: with more of them the caches are too small.
LARGE_CONNECTIONS_EACH = 4
LARGE_PIECES = 4 * MIB
# Average bytes of an object below which the round trip takes longer than the content.
SMALL = 256 << 10
# Connections of all processes together.
MOST_CONNECTIONS = 192
# Requests per second that a process can make (benchmarks/RESULTS.md).
REQUESTS_EACH = 4_000
# Least files for each connection: a handshake costs several requests.
FILES_PER_CONNECTION = 16
# Requests per second that OBS answers to an account.
REQUESTS_OF_OBS = 10_000

# Large files that are downloaded at once: threads that write to one take turns at its lock in the kernel, and
# wait busily, for a sixth of the CPU time. Uploads go one by one: the first is whole soon.
DOWN_ABREAST = 4
# Bytes of units after which a worker gets no more at once.
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
    """Worker processes with some connections each; 0 processes stand for a loop in the own process."""

    processes: int
    connections: int


def is_small(files: int, size: int) -> bool:
    """Tells whether a transfer is over before another process has started."""
    return files < ALONE_FILES and size < ALONE_BYTES


def pool_size(files: int, size: int, cores: int, round_trip: float) -> PoolSize:
    """Returns the pool for so many files (or parts) and bytes; `round_trip` is a small request's, in seconds.

    Connections wait for the network, so there are as many as the processes can have requests in flight during
    a round trip. Processes compute, so there are as many as cores.
    """
    if is_small(files, size):
        return PoolSize(0, max(1, min(ALONE_CONNECTIONS, files // FILES_PER_ALONE)))
    processes = max(1, min(cores, MOST_PROCESSES))
    wanted = math.ceil(min(REQUESTS_EACH * processes, REQUESTS_OF_OBS) * round_trip)
    if size < files * SMALL:
        wanted = min(wanted, files // FILES_PER_CONNECTION)
    least = LARGE_CONNECTIONS_EACH if size > files * LARGE_PIECES else CONNECTIONS_EACH
    each = max(1, min(max(wanted, least * processes), MOST_CONNECTIONS, files) // processes)
    return PoolSize(processes if processes > 1 else 0, each)


def parts_that_count(stored: tuple[tuple[int, int, str], ...], planned: list[Span]) -> list[str]:
    """Returns the ETag of each planned part that is stored with its size, empty for the others."""
    etags = {(number, length): etag for number, length, etag in stored}
    return [etags.get((number, span.length), "") for number, span in enumerate(planned, start=1)]
