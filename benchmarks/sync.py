"""Moves trees of files between a fast local object store and this disk, beside the tools that people use.

    python benchmarks/sync.py [--runs N] [--tools ours,rclone,...] [--rows 'A down,B up,plan']

A row is written into its page when it is complete. Trees: A has 10,000 files of 16 KiB, B 4 of 512 MiB, C
2,000 of log-normal sizes around 1 MiB. D and E are two of awslabs' aws-crt-s3-benchmarks: 10,000 files of 256
KiB, and one of 5 GiB. Each tool is a process of its own, in turn with the others; the time
is that of the whole process, the median of the runs; CPU is the median's, peak memory (PSS, all its
processes) the highest. The store is `stub_server.py` on the same cores; in a row with TLS, nginx is before
it, whose CPU is shown apart; in a row with radosgw, the store is Ceph's, which we did not write. `make
bench-sync` installs the peers.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, NamedTuple
from urllib.parse import urlsplit

import tables
from summary import AS_INPUTS, NO_PEERS
from sync_tools import TOOLS, VERIFIES, Job, aws, rclone
from tls_end import TlsEnd, tls_before

HERE = Path(__file__).parent
_numbers = itertools.count()
LATENCY_SECONDS = 0.02
PLANNED = 1_000_000  # objects
SPARE = 1 << 30  # bytes of memory that a run needs beside what it writes
LONG_SECONDS = 10.0  # a run of a peer that takes longer is not repeated


class Measured(NamedTuple):
    """One run of one tool; `end_cpu` is that of the TLS end meanwhile."""

    seconds: float
    cpu: float
    peak: float
    end_cpu: float = 0.0


RunsByTool = dict[str, list[Measured]]


class ToolFailed(Exception):
    """A tool ended with another code than 0; its row has no figures then."""


def make_trees(root: Path, trees: Sequence[str]) -> None:
    """The same content every time."""
    chance = random.Random(1)
    noise = chance.randbytes(64 << 20)
    sizes: dict[str, list[tuple[str, int]]] = {
        "A": [(f"{number // 100:03}/{number:05}", 16 << 10) for number in range(10_000)],
        "B": [(f"{number}", 512 << 20) for number in range(4)],
        "C": [
            (
                f"{number // 100:03}/{number:04}",
                int(min(chance.lognormvariate(math.log(400 << 10), 1.4), 64 << 20)),
            )
            for number in range(2_000)
        ],
        "D": [(f"{number // 100:03}/{number:05}", 256 << 10) for number in range(10_000)],
        "E": [("0", 5 << 30)],
    }
    for tree in trees:
        for name, size in sizes[tree]:
            path = root / "bucket" / tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                while size > 0:
                    start = chance.randrange(1 << 20)
                    size -= file.write(noise[start : start + min(size, len(noise) - start)])


def measured(argv: list[str], environ: Mapping[str, str]) -> Measured:
    """Runs a tool to its end; raises `ToolFailed`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    try:
        process = subprocess.Popen(argv, env=environ, stdout=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise ToolFailed(f"an error, as it is not installed: {error.filename}") from None
    with process:
        peak = [0.0]
        over = threading.Event()
        watch = threading.Thread(target=_watch, args=(process.pid, peak, over), daemon=True)
        watch.start()
        try:
            code = process.wait()
        except BaseException:  # SIGTERM or Ctrl-C: leaving the block waits for the tool
            process.kill()
            raise
        finally:
            over.set()
    seconds = time.monotonic() - started
    watch.join()
    if code != 0:
        raise ToolFailed(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(seconds, cpu, peak[0])


def _watch(pid: int, peak: list[float], over: threading.Event) -> None:
    """Looks at the memory of the tool and its children ten times per second."""
    while not over.wait(0.1):
        peak[0] = max(peak[0], sum(_pss(member) for member in _family(pid)))


def _family(pid: int) -> list[int]:
    """The process, its children, whichever of its threads started them, and theirs."""
    children: list[str] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += thread.read_text().split()
    return [pid, *(member for child in children for member in _family(int(child)))]


def _pss(pid: int) -> float:
    """Megabytes."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0
    return 0.0


class Row(NamedTuple):
    """A transfer that is measured; `again` is a second one, with nothing to do; `latency` is in seconds.

    `tls`: by https; `radosgw`: the store is Ceph's.
    """

    tree: str
    way: str
    latency: float = 0.0
    again: bool = False
    tools: Sequence[str] = tuple(TOOLS)
    tls: bool = False
    radosgw: bool = False


UPLOADING = tuple(tool for tool in TOOLS if tool not in ("curl", AS_INPUTS))
FASTEST = ("ours", "rclone", "obstore", "obstore + MD5", "opendal", "opendal + MD5", "s5cmd", "awscrt")
PLAN = "plan"
TLS, RADOSGW = " TLS", " radosgw"
PLAIN: dict[str, Row] = {
    "A down": Row("A", "download"),
    "A up": Row("A", "upload", tools=UPLOADING),
    "A nothing": Row("A", "download", again=True, tools=("ours", "rclone", "aws")),
    "A latency": Row("A", "download", LATENCY_SECONDS, tools=("ours", "rclone", "obstore")),
    "B down": Row("B", "download"),
    "B up": Row("B", "upload", tools=UPLOADING),
    "B nothing": Row("B", "download", again=True, tools=("ours", "rclone", "aws")),
    "C down": Row("C", "download"),
    "C up": Row("C", "upload", tools=UPLOADING),
    **{
        f"{tree} {way}": Row(tree, f"{way}load", tools=FASTEST)
        for tree in ("D", "E")
        for way in ("down", "up")
    },
}
ROWS = {
    **PLAIN,
    **{name + TLS: row._replace(tls=True) for name, row in PLAIN.items()},
    **{
        name + RADOSGW: PLAIN[name]._replace(radosgw=True, tools=FASTEST)
        for name in ("A down", "A up", "B down", "C down")  # its memory has no room for more
    },
}


def wait_for_disk(size: int = 0) -> None:
    """Waits until the disk has what earlier runs wrote, and takes the memory of a run from the host.

    Else the first run would pay for the trees, and each one for pages that a virtual machine does not have
    yet: they take up to six times as long. `size` are the bytes that a run writes, if they are many.
    """
    os.sync()
    pages = (size + SPARE) >> 12
    touch = f"import mmap; memory = mmap.mmap(-1, {pages << 12}); memory[::4096] = bytes({pages})"
    subprocess.run([sys.executable, "-c", touch], check=True)


def in_turn(tools: Sequence[str], runs: int, size: int, once: Callable[[str, int], Measured]) -> RunsByTool:
    """The runs of each tool, in turn, which write `size` bytes.

    One that has failed, or takes long, is not repeated; ours always is. No tool is always the one after the
    same other.
    """
    runs_of: RunsByTool = {tool: [] for tool in tools}
    ahead = list(tools)
    for number in range(runs):
        for tool in random.sample(ahead, len(ahead)):
            wait_for_disk(size)
            try:
                runs_of[tool].append(once(tool, number))
                print(f"{tool}: {runs_of[tool][-1].seconds:.2f} s", file=sys.stderr)
            except ToolFailed as error:
                print(f"{tool} ended with {error}", file=sys.stderr)
                ahead.remove(tool)
            else:
                if tool != "ours" and runs_of[tool][-1].seconds > LONG_SECONDS:
                    ahead.remove(tool)
    return runs_of


@contextmanager
def served(tree: Path, latency: float = 0.0, keys: int = 0) -> Iterator[str]:
    """The URL of a store with the tree, and so many keys more."""
    argv = [sys.executable, str(HERE / "stub_server.py"), str(tree), str(latency), str(keys)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


@contextmanager
def radosgw_with(tree: Path, out: Path, name: str) -> Iterator[str]:
    """The URL of Ceph's gateway, on the same cores, with one of the trees."""
    sys.path.append(str(HERE.parent))
    from tests.conformance.radosgw import Radosgw

    with tempfile.TemporaryDirectory(dir=out) as here, Radosgw(Path(here)) as ceph:
        ceph.add_keys("a", "b")
        local = tree / "bucket" / name
        job = Job("upload", name, ceph.url, local, f"{name}/", 0.0)
        making_the_bucket = [*rclone(job), "--s3-no-check-bucket=false"]
        subprocess.run(making_the_bucket, env=job.environ(), check=True)
        yield ceph.url


@contextmanager
def reached(url: str, tls: bool) -> Iterator[TlsEnd | None]:
    """The TLS end before the store at this URL; None without TLS."""
    if not tls:
        yield None
        return
    scratch = tempfile.TemporaryDirectory(dir=os.environ["BENCH_OUT"])
    with scratch as here, tls_before(urlsplit(url).netloc, Path(here)) as end:
        yield end


def transfer(tree: Path, out: Path, what: Row, tools: Sequence[str], runs: int) -> str:
    """The table of one transfer by all tools."""
    files = [path for path in (tree / "bucket" / what.tree).rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    store = radosgw_with(tree, out, what.tree) if what.radosgw else served(tree, what.latency)
    with store as plain, reached(plain, what.tls) as end:
        url, trusted = (end.url, end.trusted()) if end else (plain, {})

        def once(tool: str, number: int) -> Measured:
            down = what.way == "download"
            local = out / str(next(_numbers)) if down else tree / "bucket" / what.tree
            key = f"{what.tree}/" if down else f"up-{tool}{number}/"
            job = Job(what.way, what.tree, url, local, key, what.latency, trusted)
            local.mkdir(parents=True, exist_ok=True)
            argv = TOOLS[tool](job)
            try:
                if what.again:
                    measured(argv, job.environ())
                    wait_for_disk(size)
                before = end.cpu() if end else 0.0
                run = measured(argv, job.environ())
                return run._replace(end_cpu=end.cpu() - before if end else 0.0)
            finally:
                for written in (path for path in out.iterdir() if path.name.isdigit() or path.name == "copy"):
                    emptied(written)

        runs_of = in_turn([tool for tool in tools if tool in what.tools], runs, size, once)
    return table(runs_of, len(files), size, what.tls)


def table(runs_of: RunsByTool, count: int, size: int, tls: bool = False) -> str:
    """One Markdown table: medians, and ratios to ours."""
    cpu = "CPU s | TLS end's CPU s" if tls else "CPU s"
    lines = [f"| tool | s | spread | runs | objects/s | MB/s | {cpu} | MB | time / ours | verifies |"]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    middle = {tool: statistics.median(run.seconds for run in runs) for tool, runs in runs_of.items() if runs}
    for tool, seconds in middle.items():
        times = sorted(run.seconds for run in runs_of[tool])
        typical = min(runs_of[tool], key=lambda run, seconds=seconds: abs(run.seconds - seconds))  # type: ignore[misc]
        ratio = f"{seconds / middle['ours']:.2f}" if "ours" in middle else "-"
        rates = (
            f"{count / seconds:.0f} | {size / seconds / 1e6:.0f}" if size else f"{count / seconds:.0f} | -"
        )
        spread = f"{times[0]:.2f} - {times[-1]:.2f}" if len(times) > 1 else "-"
        used = f"{typical.cpu:.1f} | {typical.end_cpu:.1f}" if tls else f"{typical.cpu:.1f}"
        peak = f"{max(run.peak for run in runs_of[tool]):.0f}"
        shown = f"**{tool}**" if seconds < middle.get("ours", 0.0) and tool not in NO_PEERS else tool
        lines.append(
            f"| {shown} | {seconds:.2f} | {spread} | {len(times)} | {rates} | {used} | {peak} | {ratio} "
            f"| {VERIFIES[tool]} |"
        )
    return "\n".join(lines)


def plan(out: Path, keys: int, tools: Sequence[str], runs: int) -> str:
    """Listing and comparing only: what each tool would fetch of so many objects."""
    with served(out, keys=keys) as url:
        local = out / "planned"
        local.mkdir()
        (out / "plan.yaml").write_text(f"input: {{{local}: obs://bucket/many/}}")
        job = Job("download", "many", url, local, "many/", 0.0)
        argvs = {
            "ours": [sys.executable, "-m", "ma_boot", "sync", "plan", str(out / "plan.yaml")],
            "rclone": [*rclone(job), "--dry-run", "--log-file", "/dev/null"],
            "aws": [*(part for part in aws(job) if part != "--quiet"), "--dryrun"],
        }
        chosen = [tool for tool in tools if tool in argvs]
        runs_of = in_turn(chosen, runs, 0, lambda tool, number: measured(argvs[tool], job.environ()))
    return table(runs_of, keys, 0)


def place_of(row: str) -> str:
    """The table after which that of this row is: with TLS after without, with radosgw after both.

    The first of a tree and way is after that of the one before, with TLS.
    """
    if row.endswith(TLS):
        return f"sync {row[: -len(TLS)]}"
    if row.endswith(RADOSGW):
        return f"sync {row[: -len(RADOSGW)]}{TLS}"
    names = list(PLAIN)
    return f"sync {names[names.index(row) - 1]}{TLS}" if row in names[1:] else ""


def emptied(out: Path) -> None:
    """Gives the space back, not the inodes: ext4 is slow for minutes where many were given back."""
    for path in out.rglob("*"):
        if path.is_file() and path.stat().st_size:
            os.truncate(path, 0)


def main() -> None:
    """Measures the rows that are asked for, and writes their tables into the pages."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the store must end, too
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=5, help="of each tool (5)")
    options.add_argument("--tools", default=",".join(TOOLS))
    options.add_argument("--directory", type=Path, default=None, help="where 8 GB are free")
    all_rows = ",".join([*ROWS, PLAN])
    options.add_argument("--rows", default=all_rows, help=f"some of {all_rows}")
    options.add_argument("--print", action="store_true", help="leave the pages as they are")
    asked = options.parse_args()
    tools, rows = asked.tools.split(","), asked.rows.split(",")
    if wrong := [row for row in rows if row not in (*ROWS, PLAN)]:
        options.error(f"no such rows: {', '.join(wrong)}")
    with tempfile.TemporaryDirectory(dir=asked.directory) as directory:
        tree, out = Path(directory, "tree"), Path(directory, "out")
        out.mkdir()
        os.environ["BENCH_TREE"], os.environ["BENCH_OUT"] = str(tree), str(out)
        make_trees(tree, sorted({ROWS[row].tree for row in rows if row in ROWS}))
        for row in rows:
            if row == PLAN:
                text = plan(out, PLANNED, tools, asked.runs)
            else:
                text = transfer(tree, out, ROWS[row], tools, asked.runs)
            print(f"\n{row}\n{text}", flush=True)
            if not asked.print:
                tables.write(f"sync {row}", text, after=place_of(row))


if __name__ == "__main__":
    main()
