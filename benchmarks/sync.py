"""Moves trees of files between a fast local object store and this disk, beside the tools that people use.

    python benchmarks/sync.py [--runs N] [--tools ours,rclone,...] [--rows 'A down,B up,plan']

A row is written into README.md when it is complete. Trees: A has 10,000 files of 16 KiB, B 4 of 512 MiB, C
2,000 of log-normal sizes around 1 MiB. Each tool is a process of its own, in turn with the others; the time
is that of the whole process, the median of the runs; CPU is the median's, peak memory (PSS, all its
processes) the highest. The store is `stub_server.py` on the same cores. `make bench-sync` installs the peers.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import tables

HERE = Path(__file__).parent
_numbers = itertools.count()
LATENCY_SECONDS = 0.02
PLANNED = 1_000_000  # objects
TOUCHED = 3 << 30  # bytes: what a run writes, and some more
LONG_SECONDS = 30.0  # a run of a peer that takes longer is not repeated
BIN = Path(sys.executable).parent
KEYS = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
}
OURS = """
import sys, threading
from pathlib import Path
from path_mapping.mapping import ObsUrl, Route
from path_mapping.stores import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from path_mapping import transfer
way, url, local, key = sys.argv[1:]
store = ObsStore(Access(url, Credentials("a", "b")))
getattr(transfer, way)([Route(local, ObsUrl("bucket", key))], Path("/"), store,
                       cancel=threading.Event(), progress=lambda progress: None)
"""
BOTO3 = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
way, url, local, key = sys.argv[1:]
settings = Config(max_pool_connections=64, s3={"addressing_style": "path"})
client = boto3.client("s3", endpoint_url=url, config=settings)
config = TransferConfig(max_concurrency=8)
with ThreadPoolExecutor(16) as pool:
    if way == "download":
        def get(name):
            target = Path(local, name[len(key):])
            target.parent.mkdir(parents=True, exist_ok=True)
            client.download_file("bucket", name, str(target), Config=config)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=key)
        list(pool.map(get, [entry["Key"] for page in pages for entry in page.get("Contents", ())]))
    else:
        def put(path):
            client.upload_file(str(path), "bucket", key + path.relative_to(local).as_posix(), Config=config)
        list(pool.map(put, [path for path in Path(local).rglob("*") if path.is_file()]))
"""
OBSTORE = """
import asyncio, sys
from pathlib import Path
import obstore
from obstore.store import S3Store
way, url, local, key = sys.argv[1:]
store = S3Store("bucket", endpoint=url, access_key_id="a", secret_access_key="b", region="us-east-1",
                virtual_hosted_style_request=False, client_options={"allow_http": True},
                unsigned_payload=True)
async def main():
    gate = asyncio.Semaphore(64)
    async def get(name, size):
        async with gate:
            target = Path(local, name[len(key):])
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                if size <= 32 << 20:
                    file.write(await (await obstore.get_async(store, name)).bytes_async())
                    return
                async for piece in (await obstore.get_async(store, name)).stream(min_chunk_size=8 << 20):
                    file.write(piece)
    async def put(path):
        async with gate:
            await obstore.put_async(store, key + path.relative_to(local).as_posix(), path)
    if way == "download":
        found = [entry for page in obstore.list(store, key) for entry in page]
        await asyncio.gather(*[get(entry["path"], entry["size"]) for entry in found])
    else:
        await asyncio.gather(*[put(path) for path in Path(local).rglob("*") if path.is_file()])
asyncio.run(main())
"""
SDK = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from obs import ObsClient
way, url, local, key = sys.argv[1:]
client = ObsClient("a", "b", server=url, path_style=True, long_conn_mode=True)
def check(answer):
    assert answer.status < 300, answer
with ThreadPoolExecutor(8) as pool:
    if way == "download":
        names, marker = [], None
        while True:
            page = client.listObjects("bucket", prefix=key, marker=marker).body
            names += [entry.key for entry in page.contents]
            if not page.is_truncated:
                break
            marker = page.next_marker
        def get(name):
            target = Path(local, name[len(key):])
            target.parent.mkdir(parents=True, exist_ok=True)
            check(client.downloadFile("bucket", name, str(target), partSize=16 << 20, taskNum=8))
        list(pool.map(get, names))
    else:
        def put(path):
            name = key + path.relative_to(local).as_posix()
            check(client.uploadFile("bucket", name, str(path), partSize=16 << 20, taskNum=8))
        list(pool.map(put, [path for path in Path(local).rglob("*") if path.is_file()]))
"""


class Job(NamedTuple):
    """One transfer: `way` is download or upload."""

    way: str
    tree: str
    url: str
    local: Path
    key: str
    latency: float


class Measured(NamedTuple):
    """One run of one tool."""

    seconds: float
    cpu: float
    peak: float


Found = Dict[str, List[Measured]]


class ToolFailed(Exception):
    """A tool ended with another code than 0; its row has no figures then."""


def python(program: str) -> Callable[[Job], List[str]]:
    """A tool that is a program of ours around a library. All start and end as ma_boot does."""
    whole = f"import gc\ngc.set_threshold(50_000)\n{program}\nimport os\nos._exit(0)"
    return lambda job: [sys.executable, "-c", whole, job.way, job.url, str(job.local), job.key]


def cp(job: Job) -> List[str]:
    """A local copy: no network at all."""
    source = job.local if job.way == "upload" else Path(os.environ["BENCH_TREE"], "bucket", job.tree)
    target = job.local if job.way == "download" else Path(os.environ["BENCH_OUT"], "copy")
    return ["cp", "-r", str(source), str(target)]


def curl(job: Job) -> List[str]:
    """What the network and the disk let a program in C do: no listing, no signature, nothing compared."""
    tree = Path(os.environ["BENCH_TREE"], "bucket", job.tree)
    names = [path.relative_to(tree) for path in tree.rglob("*") if path.is_file()]
    wanted = (f'url="{job.url}/bucket/{job.tree}/{name}"\noutput="{job.local / name}"\n' for name in names)
    config = Path(os.environ["BENCH_OUT"], "curl")
    config.write_text("".join(wanted))
    common = ["--parallel", "--parallel-max", "32", "--create-dirs", "--no-progress-meter"]
    return ["curl", *common, "--config", str(config)]


def rclone(job: Job) -> List[str]:
    """With as many streams as it takes to be fast."""
    remote = f":s3,provider=Other,endpoint='{job.url}',access_key_id=a,secret_access_key=b:bucket/{job.key}"
    ends = [remote, str(job.local)] if job.way == "download" else [str(job.local), remote]
    few = ["--transfers", "4", "--multi-thread-streams", "8", "--s3-upload-concurrency", "8"]
    many = ["--transfers", "64" if job.latency else "32", "--checkers", "16"]
    common = ["--config", "/dev/null", "--s3-no-check-bucket"]
    return [str(BIN / "rclone"), "copy", *ends, *(few if job.tree == "B" else many), *common]


def aws(job: Job) -> List[str]:
    """As it comes."""
    remote = f"s3://bucket/{job.key}"
    ends = [remote, str(job.local)] if job.way == "download" else [str(job.local), remote]
    return [str(BIN / "aws"), "--endpoint-url", job.url, "s3", "sync", "--quiet", *ends]


TOOLS: Dict[str, Callable[[Job], List[str]]] = {
    "cp": cp,
    "curl": curl,
    "ours": python(OURS),
    "rclone": rclone,
    "obstore": python(OBSTORE),
    "aws": aws,
    "boto3": python(BOTO3),
    "sdk": python(SDK),
}


def make_trees(root: Path, trees: Sequence[str]) -> None:
    """The same content every time."""
    chance = random.Random(1)
    noise = chance.randbytes(64 << 20)
    sizes: Dict[str, List[Tuple[str, int]]] = {
        "A": [(f"{number // 100:03}/{number:05}", 16 << 10) for number in range(10_000)],
        "B": [(f"{number}", 512 << 20) for number in range(4)],
        "C": [
            (
                f"{number // 100:03}/{number:04}",
                int(min(chance.lognormvariate(math.log(400 << 10), 1.4), 64 << 20)),
            )
            for number in range(2_000)
        ],
    }
    for tree in trees:
        for name, size in sizes[tree]:
            path = root / "bucket" / tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                while size > 0:
                    start = chance.randrange(1 << 20)
                    size -= file.write(noise[start : start + min(size, len(noise) - start)])


def measured(argv: List[str]) -> Measured:
    """Runs a tool to its end; raises `ToolFailed`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    try:
        process = subprocess.Popen(argv, env={**os.environ, **KEYS}, stdout=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise ToolFailed(f"an error, as it is not installed: {error.filename}") from None
    with process:
        peak = [0.0]
        over = threading.Event()
        watch = threading.Thread(target=_watch, args=(process.pid, peak, over))
        watch.start()
        code = process.wait()
    seconds = time.monotonic() - started
    over.set()
    watch.join()
    if code != 0:
        raise ToolFailed(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(seconds, cpu, peak[0])


def _watch(pid: int, peak: List[float], over: threading.Event) -> None:
    """Looks at the memory of the tool and its children ten times per second."""
    while not over.wait(0.1):
        peak[0] = max(peak[0], sum(_pss(one) for one in _family(pid)))


def _family(pid: int) -> List[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(one for child in children for one in _family(int(child)))]


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
    """A transfer that is measured; `again` is a second one, with nothing to do; `latency` is in seconds."""

    tree: str
    way: str
    latency: float = 0.0
    again: bool = False
    tools: Sequence[str] = tuple(TOOLS)


UPLOADING = tuple(tool for tool in TOOLS if tool != "curl")
ROWS: Dict[str, Row] = {
    "A down": Row("A", "download"),
    "A up": Row("A", "upload", tools=UPLOADING),
    "A nothing": Row("A", "download", again=True, tools=("ours", "rclone", "aws")),
    "A latency": Row("A", "download", LATENCY_SECONDS, tools=("ours", "rclone", "obstore")),
    "B down": Row("B", "download"),
    "B up": Row("B", "upload", tools=UPLOADING),
    "B nothing": Row("B", "download", again=True, tools=("ours", "rclone", "aws")),
    "C down": Row("C", "download"),
    "C up": Row("C", "upload", tools=UPLOADING),
}
PLAN = "plan"


def settled() -> None:
    """Waits until the disk has what earlier runs wrote, and takes the memory of a run from the host.

    Else the first run would pay for the trees, and each one for pages that a virtual machine does not have
    yet: they take up to six times as long.
    """
    os.sync()
    touch = f"import mmap; memory = mmap.mmap(-1, {TOUCHED}); memory[::4096] = bytes({TOUCHED >> 12})"
    subprocess.run([sys.executable, "-c", touch], check=True)


def in_turn(tools: Sequence[str], runs: int, once: Callable[[str, int], Measured]) -> Found:
    """The runs of each tool, in turn. One that has failed, or takes long, is not repeated; ours always is.

    No tool is always the one after the same other.
    """
    found: Found = {tool: [] for tool in tools}
    ahead = list(tools)
    for number in range(runs):
        for tool in random.sample(ahead, len(ahead)):
            settled()
            try:
                found[tool].append(once(tool, number))
                print(f"{tool}: {found[tool][-1].seconds:.2f} s", file=sys.stderr)
            except ToolFailed as error:
                print(f"{tool} ended with {error}", file=sys.stderr)
                ahead.remove(tool)
            else:
                if tool != "ours" and found[tool][-1].seconds > LONG_SECONDS:
                    ahead.remove(tool)
    return found


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


def transfer(tree: Path, out: Path, what: Row, tools: Sequence[str], runs: int) -> str:
    """The table of one transfer by all tools."""
    with served(tree, what.latency) as url:

        def once(tool: str, number: int) -> Measured:
            down = what.way == "download"
            local = out / str(next(_numbers)) if down else tree / "bucket" / what.tree
            key = f"{what.tree}/" if down else f"up-{tool}{number}/"
            job = Job(what.way, what.tree, url, local, key, what.latency)
            local.mkdir(parents=True, exist_ok=True)
            try:
                if what.again:
                    measured(TOOLS[tool](job))
                    settled()
                return measured(TOOLS[tool](job))
            finally:
                emptied(out)

        found = in_turn([tool for tool in tools if tool in what.tools], runs, once)
    files = [path for path in (tree / "bucket" / what.tree).rglob("*") if path.is_file()]
    return table(found, len(files), sum(path.stat().st_size for path in files))


def table(found: Found, count: int, size: int) -> str:
    """One Markdown table: medians, and ratios to ours."""
    lines = ["| tool | s | spread | runs | objects/s | MB/s | CPU s | MB | time / ours |", "|---" * 9 + "|"]
    middle = {tool: statistics.median(run.seconds for run in runs) for tool, runs in found.items() if runs}
    for tool, seconds in middle.items():
        times = sorted(run.seconds for run in found[tool])
        typical = min(found[tool], key=lambda run, seconds=seconds: abs(run.seconds - seconds))  # type: ignore[misc]
        ratio = f"{seconds / middle['ours']:.2f}" if "ours" in middle else "-"
        rates = (
            f"{count / seconds:.0f} | {size / seconds / 1e6:.0f}" if size else f"{count / seconds:.0f} | -"
        )
        spread = f"{times[0]:.2f} - {times[-1]:.2f}" if len(times) > 1 else "-"
        used = f"{typical.cpu:.1f} | {max(run.peak for run in found[tool]):.0f}"
        lines.append(f"| {tool} | {seconds:.2f} | {spread} | {len(times)} | {rates} | {used} | {ratio} |")
    return "\n".join(lines)


def plan(out: Path, keys: int, tools: Sequence[str], runs: int) -> str:
    """Listing and comparing only: what each tool would fetch of so many objects."""
    with served(out, keys=keys) as url:
        local = out / "planned"
        local.mkdir()
        (out / "plan.yaml").write_text(f"input: {{{local}: obs://bucket/many/}}")
        job = Job("download", "many", url, local, "many/", 0.0)
        os.environ.update(OBS_ENDPOINT=url, OBS_ACCESS_KEY_ID="a", OBS_SECRET_ACCESS_KEY="b")
        argvs = {
            "ours": [sys.executable, "-m", "ma_boot", "sync", "plan", str(out / "plan.yaml")],
            "rclone": [*rclone(job), "--dry-run", "--log-file", "/dev/null"],
            "aws": [*(part for part in aws(job) if part != "--quiet"), "--dryrun"],
        }
        chosen = [tool for tool in tools if tool in argvs]
        found = in_turn(chosen, runs, lambda tool, number: measured(argvs[tool]))
    return table(found, keys, 0)


def emptied(out: Path) -> None:
    """Gives the space back, not the inodes: ext4 is slow for minutes where many were given back."""
    for path in out.rglob("*"):
        if path.is_file() and path.stat().st_size:
            os.truncate(path, 0)


def main() -> None:
    """Measures the rows that are asked for, and writes their tables into README.md."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=5, help="of each tool (5)")
    options.add_argument("--tools", default=",".join(TOOLS))
    options.add_argument("--directory", type=Path, default=None, help="where 8 GB are free")
    all_rows = ",".join([*ROWS, PLAN])
    options.add_argument("--rows", default=all_rows, help=f"some of {all_rows}")
    options.add_argument("--print", action="store_true", help="leave README.md as it is")
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
                found = plan(out, PLANNED, tools, asked.runs)
            else:
                found = transfer(tree, out, ROWS[row], tools, asked.runs)
            print(f"\n{row}\n{found}", flush=True)
            if not asked.print:
                tables.write(f"sync {row}", found)


if __name__ == "__main__":
    main()
