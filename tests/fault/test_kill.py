"""A transfer killed at any point and run again: the tree is complete, and complete files are kept."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from path_mapping.errors import Cancelled, WorkersLost
from path_mapping.transfer.scheduler import Progress
from tests.fault.seeds import drawn
from tests.functional.node import eventually
from tests.obs import MemoryObs
from tests.transfers import fetch, is_worker, obs_store, route, send, workers

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
KILLS = 4  # `make test-kill` has hundreds
PROGRAM = """
import sys
from pathlib import Path
from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.errors import Cancelled, WorkersLost
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from path_mapping import transfer
way, url, base, local, key = sys.argv[1:]
store = ObsStore(Access(url, Credentials("AKPLANTED", "SKPLANTED"), multipart_from=6 << 20, part=5 << 20))
print("ready", flush=True)
getattr(transfer, way)([Route(local, ObsUrl("bucket", key))], Path(base),
                       transfer.RetriedStore(store),
                       lambda now: print(now.files_done / now.files / 2 + now.bytes_done / now.bytes / 2, flush=True))
"""


def make_tree(root: Path, small: int, large: int, size: int) -> None:
    """Writes files of all sizes, some of them empty, some in deep directories."""
    chance = random.Random(7)
    for number in range(small):
        path = root / f"d{number % 7}" / ("deep/er" if number % 3 else "") / f"{number:04}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(chance.choice([0, 1, 500, 16_384, 300_000])))
    for number in range(large):
        (root / f"large{number}").write_bytes(chance.randbytes(size + number))


def sums(root: Path) -> dict[str, str]:
    """The checksum of every file, unfinished ones too."""
    return {
        path.relative_to(root).as_posix(): hashlib.md5(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def served(tree: Path, *delay: str) -> Iterator[str]:
    """Serves a tree of buckets; yields the server's URL and the directory of the inputs, separated by a bar."""
    argv = [sys.executable, str(ROOT / "benchmarks" / "stub_server.py"), str(tree), *delay]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}|{tree / 'bucket' / 'in'}"
        server.kill()


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A fast server with a mixed tree."""
    tree = tmp_path_factory.mktemp("objects")
    make_tree(tree / "bucket" / "in", 450, 3, 34 * MIB)  # enough for worker processes
    yield from served(tree)


def killed(
    way: str, url: str, base: Path, local: str, key: str, chance: random.Random, whole_tree: bool
) -> None:
    """Runs a transfer and kills it at any point; its workers must end with it."""
    point = chance.uniform(0, 1)
    argv = [sys.executable, "-c", PROGRAM, way, url, str(base), local, key]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for line in process.stdout:
            if float(line) >= point:
                break
        time.sleep(chance.uniform(0, 0.02))  # anywhere between two reports
        process.send_signal(signal.SIGSTOP)  # a worker that is started after the look would not be waited for
        eventually(lambda: _state(process.pid) in "TZ", "the program is stopped")
        children = _children(process.pid)
        process.kill()
        if whole_tree:
            for child in children:
                os.kill(child, signal.SIGKILL)
    eventually(lambda: not any(map(is_worker, children)), "the end of the workers")


def _state(pid: int) -> str:
    """Returns the letter of a process's state: Z for a child that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "Z"


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def one_download(server: str, base: Path, chance: random.Random) -> None:
    url, tree = server.split("|")
    target, wanted = base / "in", sums(Path(tree))
    killed("download", url, base, "in", "in/", chance, chance.random() < 0.5)
    files = {path: path.stat().st_ino for path in target.rglob("*") if path.is_file()}
    whole = {path: number for path, number in files.items() if not path.name.endswith(".ma_part")}
    for path in whole:
        name = path.relative_to(target).as_posix()
        assert hashlib.md5(path.read_bytes()).hexdigest() == wanted[name], "half a file at its final path"
    store = obs_store(url)
    done = fetch(store, base)
    assert sums(target) == wanted
    assert done.skipped == len(whole)
    assert {path: path.stat().st_ino for path in whole} == whole


def run_downloads(server: str, tmp_path: Path, kills: int) -> None:
    chance = drawn()
    for number in range(kills):
        base = tmp_path / str(number)
        base.mkdir()
        one_download(server, base, chance)
        subprocess.run(["rm", "-rf", str(base)], check=True)


@pytest.mark.invariant("A file is complete or absent, after a kill at any moment")
def test_killed_download_is_completed_by_the_next_run(stub: str, tmp_path: Path) -> None:
    run_downloads(stub, tmp_path, KILLS)


@pytest.mark.kill
@pytest.mark.timeout(3600)
def test_download_killed_at_300_points_is_completed(stub: str, tmp_path: Path) -> None:
    run_downloads(stub, tmp_path, 300)


def run_uploads(url: str, tmp_path: Path, kills: int) -> None:
    make_tree(tmp_path / "out", 30, 2, 11 * MIB)
    wanted = sums(tmp_path / "out")
    chance = drawn()
    store = obs_store(url, multipart_from=6 * MIB, part=5 * MIB)
    for number in range(kills):
        key = f"out{number}/"
        killed("upload", url, tmp_path, "out", key, chance, False)
        send(store, tmp_path, route("out", key))
        stored = {
            entry.key[len(key) :]: hashlib.md5(b"".join(store.read("bucket", entry.key))).hexdigest()
            for entry in store.list("bucket", key)
        }
        assert stored == wanted
        for left in store.unfinished("bucket", key):  # begun right before the kill, and not noted yet
            assert store.begin_parts("bucket", left.key, (left.upload,)).parts == ()


def test_killed_upload_is_completed_by_the_next_run(obs: MemoryObs, tmp_path: Path) -> None:
    run_uploads(obs.url, tmp_path, 5)


@pytest.mark.kill
@pytest.mark.timeout(3600)
def test_upload_killed_at_100_points_is_completed(obs: MemoryObs, tmp_path: Path) -> None:
    run_uploads(obs.url, tmp_path, 100)


@pytest.fixture(scope="module")
def slow_stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a long round trip, so that a transfer takes a second or two."""
    tree = tmp_path_factory.mktemp("far")
    make_tree(tree / "bucket" / "in", 1500, 0, 0)
    yield from served(tree, "0.1")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has no workers")
@pytest.mark.parametrize("all_of_them", [False, True])
def test_workers_take_over_the_files_of_a_dead_worker(
    slow_stub: str, tmp_path: Path, all_of_them: bool
) -> None:
    url, tree = slow_stub.split("|")
    store = obs_store(url)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.files_done > 100 and not killed:
            killed.extend(workers() if all_of_them else workers()[:1])
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    if all_of_them:
        with pytest.raises(WorkersLost, match="code -9"):
            fetch(store, tmp_path, progress=kill)
    else:
        fetch(store, tmp_path, progress=kill)
        assert sums(tmp_path / "in") == sums(Path(tree))
    assert not [name for name in sums(tmp_path / "in") if name.endswith(".ma_part")]
    assert killed
    assert workers() == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core has no workers")
def test_cancelled_transfer_ends_all_workers_at_once(slow_stub: str, tmp_path: Path) -> None:
    url, _ = slow_stub.split("|")
    store = obs_store(url)
    cancel = threading.Event()
    asked: list[float] = []

    def stop(progress: Progress) -> None:
        if progress.files_done > 100 and not asked:
            asked.append(time.monotonic())
            cancel.set()

    with pytest.raises(Cancelled):
        fetch(store, tmp_path, cancel=cancel, progress=stop)
    assert time.monotonic() - asked[0] < 2
    assert workers() == []
