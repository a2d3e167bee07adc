"""Where the CPU time of C goes: each stage alone, with the same files and store, beside whole transfers.

    .bench/bin/python benchmarks/stages.py [--runs N] [--directory D] [--print]

A stage is a program of its own with nothing else in it, so it costs at least that much in any client: to
read files, to sum them, to send them from memory, to receive them, to write them. What a whole transfer takes
beyond its stages is Python's: starts, plan, signatures, turns at the GIL. The least of several runs counts.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple

import tables
from sync import emptied, make_trees, served, wait_for_disk
from sync_tools import TOOLS, Job

from path_mapping.localfs.source_file import crc64

RUNS = 5
TREE = "C"
PIECE = 1 << 19  # as a transfer reads, sends and writes
CONNECTIONS = 8  # those of a transfer on two cores
SEND, MORE = "send, connections: {}", f"more, as there are {CONNECTIONS} connections at once"
PEERS = ("ours", "rclone")
IMPORTS = "import path_mapping.transfer, path_mapping.stores.obs_store"
WORKER = "import path_mapping.workers.worker_process, path_mapping.stores.data_path"
_numbers = itertools.count()


class Used(NamedTuple):
    """CPU seconds of a client and of the store beside it, and the seconds that it took."""

    client: float
    store: float
    seconds: float


class Place(NamedTuple):
    """The files of the tree with their sizes, the store's URL and process, and a directory to write to."""

    files: Sequence[tuple[Path, int]]
    url: str
    store: int
    out: Path


def cpu_of(process: int) -> float:
    """The CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def used(place: Place, work: Callable[[], object]) -> Used:
    """What work in this process and its children takes."""
    wait_for_disk(sum(size for _, size in place.files))
    before, store, begun = sum(os.times()[:4]), cpu_of(place.store), time.monotonic()
    work()
    seconds = time.monotonic() - begun
    return Used(sum(os.times()[:4]) - before, cpu_of(place.store) - store, seconds)


def read(place: Place, piece_read: Callable[[memoryview], object] = len) -> None:
    """Reads all files into one buffer."""
    buffer = memoryview(bytearray(PIECE))
    for path, size in place.files:
        with path.open("rb", buffering=0) as file:
            for _ in range(0, size, PIECE):
                piece_read(buffer[: file.readinto(buffer)])


def summed(place: Place, sum_of: Callable[[memoryview], object]) -> None:
    """Sums as many bytes from memory."""
    buffer = memoryview(bytearray(PIECE))
    for _, size in place.files:
        for start in range(0, size, PIECE):
            sum_of(buffer[: min(PIECE, size - start)])


def connected(place: Place) -> socket.socket:
    """A connection to the store."""
    host, _, port = place.url.rpartition("/")[2].partition(":")
    line = socket.create_connection((host, int(port)))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


def sent(place: Place, connections: int) -> None:
    """Sends as many bytes from memory, in requests of the files' sizes, by a thread for each connection."""
    shares = [place.files[first::connections] for first in range(connections)]
    threads = [threading.Thread(target=_sent, args=(place._replace(files=share),)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _sent(place: Place) -> None:
    buffer = memoryview(bytearray(PIECE))
    with connected(place) as line:
        for number, (_, size) in enumerate(place.files):
            line.sendall(b"PUT /bucket/stage/%d HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (number, size))
            for start in range(0, size, PIECE):
                line.sendall(buffer[: min(PIECE, size - start)])
            line.recv(4096)


def received(place: Place) -> None:
    """Receives all objects into one buffer."""
    buffer = memoryview(bytearray(PIECE))
    tree = place.files[0][0].parents[1]
    with connected(place) as line:
        for path, size in place.files:
            line.sendall(f"GET /bucket/{TREE}/{path.relative_to(tree)} HTTP/1.1\r\n\r\n".encode())
            head = line.recv(1 << 14)
            left = size - (len(head) - head.index(b"\r\n\r\n") - 4)
            while left:
                left -= line.recv_into(buffer, min(left, PIECE), socket.MSG_WAITALL)


def written(place: Place) -> None:
    """Writes as many bytes from memory to new files, and moves each into its place."""
    buffer = memoryview(bytearray(PIECE))
    local = place.out / f"written{next(_numbers)}"
    local.mkdir()
    for number, (_, size) in enumerate(place.files):
        with (local / f"{number}.part").open("wb", buffering=0) as file:
            for start in range(0, size, PIECE):
                file.write(buffer[: min(PIECE, size - start)])
        (local / f"{number}.part").rename(local / str(number))


def started(workers: int) -> None:
    """Starts the processes of a transfer, which do nothing but import what they need."""
    for program in [IMPORTS, *[WORKER] * workers]:
        subprocess.run([sys.executable, "-c", program], check=True)


def moved(place: Place, tool: str, way: str) -> None:
    """A whole transfer by a tool."""
    number = next(_numbers)
    down = way == "download"
    local = place.out / f"moved{number}" if down else place.files[0][0].parents[1]
    local.mkdir(exist_ok=True)
    job = Job(way, TREE, place.url, local, f"{TREE}/" if down else f"up-{number}/", 0.0)
    subprocess.run(TOOLS[tool](job), env=job.environ(), stdout=subprocess.DEVNULL, check=True)


def measured(place: Place, works: dict[str, Callable[[], object]], runs: int) -> dict[str, Used]:
    """Each in turn; of each figure the least, as another job on the machine adds to CPU time, too."""
    samples: dict[str, list[Used]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            samples[name].append(used(place, work))
            emptied(place.out)
    return {
        name: Used(
            min(sample.client for sample in every),
            min(sample.store for sample in every),
            statistics.median(sample.seconds for sample in every),
        )
        for name, every in samples.items()
    }


def stages_of(place: Place, way: str, workers: int) -> dict[str, Callable[[], object]]:
    """The stages of our transfer, in the order of the table."""
    common = {
        f"start of {workers + 1} processes: Python, imports": lambda: started(workers),
        "CRC-64": lambda: summed(place, crc64),
    }
    if way == "upload":
        sends = {SEND.format(count): partial(sent, place, count) for count in (1, CONNECTIONS)}
        return {**common, "read": lambda: read(place), **sends}
    return {**common, "receive": lambda: received(place), "write, move": lambda: written(place)}


def table(way: str, stages: dict[str, Used], whole: dict[str, Used], md5: Used) -> str:
    """One Markdown table: the stages, what is left of ours, and the tools."""
    cores = len(os.sched_getaffinity(0))
    lines = [f"| C {'up' if way == 'upload' else 'down'} | client CPU s | store CPU s |", "|---|---|---|"]
    if several := stages.pop(SEND.format(CONNECTIONS), None):
        stage = stages[SEND.format(1)]
        stages[MORE] = Used(several.client - stage.client, several.store - stage.store, 0.0)
    lines += [f"| {name} | {stage.client:.2f} | {stage.store:.2f} |" for name, stage in stages.items()]
    ours = whole["ours"]
    rest = ours.client - sum(figures.client for figures in stages.values())
    lines.append(f"| the rest: plan, requests, files, turns at the GIL | {rest:.2f} | |")
    for tool, figures in whole.items():
        lines.append(f"| **{tool}**, {figures.seconds:.2f} s | {figures.client:.2f} | {figures.store:.2f} |")
    lines.append(f"| of rclone: MD5, as Python's takes | {md5.client:.2f} | |")
    least = sum(figures.client for figures in stages.values()) + ours.store
    lines.append(f"| the stages and the store, on {cores} cores: s | {least / cores:.2f} | |")
    lines.append(f"| so much of rclone's time, at best | {least / cores / whole['rclone'].seconds:.2f} | |")
    return "\n".join(lines)


def main() -> None:
    """Measures, and writes the tables into the pages."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--runs", type=int, default=RUNS, help=f"of each ({RUNS})")
    options.add_argument("--directory", type=Path, default=None, help="where 20 GB are free")
    options.add_argument("--print", action="store_true", help="leave the pages as they are")
    asked = options.parse_args()
    texts = []
    with tempfile.TemporaryDirectory(dir=asked.directory) as directory:
        tree, out = Path(directory, "tree"), Path(directory, "out")
        out.mkdir()
        os.environ["BENCH_OUT"] = str(out)  # where the tools keep their own files
        make_trees(tree, [TREE])
        files = [(path, path.stat().st_size) for path in sorted(tree.rglob("*")) if path.is_file()]
        with served(tree) as url:
            (store,) = map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
            place = Place(files, url, store, out)
            workers = len(os.sched_getaffinity(0))
            for way in ("upload", "download"):
                stages = measured(place, stages_of(place, way, workers), asked.runs)
                whole = measured(
                    place, {tool: partial(moved, place, tool, way) for tool in PEERS}, asked.runs
                )
                md5 = used(place, lambda: summed(place, lambda piece: hashlib.md5(piece)))
                texts.append(table(way, stages, whole, md5))
    both = "\n\n".join(texts)
    print(both)
    if not asked.print:
        tables.write("stages", both)


if __name__ == "__main__":
    main()
