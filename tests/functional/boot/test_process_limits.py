"""Limits of processes and threads: exit code 73, the limit and a remedy are named, no process is left."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.node import RANK, Node
from tests.functional.processes.limited import Limit, by_control_group, by_user

# What a start takes of descriptors, if it fails: of the guard, of a program, of the channel and of a rank.
DESCRIPTORS = """
import os, sys
from pathlib import Path
from ma_boot.node.observe.channel.protocol import Address
from ma_boot.node.observe.channel.channel import NodeChannel
from ma_boot.node.launch.launch_plan import WorkerSpec
from ma_boot.processes.signals import SignalInbox
from ma_boot.processes.children import guarded, run_child
from ma_boot.processes.orphan_guard import own_marker
from ma_boot.report.console import Console
from ma_boot.report.journal import Journal
from ma_boot.node.supervisor.worker_group import Worker

def channel(): NodeChannel("a token of the job", "job", 0, 2, Address("", 0), inbox)
def guard():
    with guarded(own_marker("x"), os.environ): print("guarded")
def program(): run_child(["true"], os.environ, inbox, print)
def rank(): Worker(WorkerSpec("rank 0", ("true",), ".", {}, os.devnull, 0), {}, Journal(Console()))
def count(): return len(os.listdir("/proc/self/fd"))

with SignalInbox() as inbox:
    for start in (channel, guard, program, rank):
        before = count()
        try:
            start()
            print(start.__name__, "has started")
        except (OSError, RuntimeError):
            pass
        print(start.__name__, count() - before)
"""


@pytest.fixture(params=[by_control_group, by_user])
def limited(request: pytest.FixtureRequest) -> Iterator[Limit]:
    with request.param() as limit:
        yield limit


def limit_of(limited: Limit) -> str:
    """Returns the words for the limit in a message."""
    return "ulimit -u is" if "prlimit" in limited(1) else "pids.max of this container is"


def test_rank_that_cannot_be_started_ends_the_job_with_73(tmp_path: Path, limited: Limit) -> None:
    node = Node(tmp_path, devices=8)
    node.complete_table()
    node.root.chmod(0o777)
    ended = node.start_by(limited(6), RANK, "sleep").end()
    assert ended.code == 73, ended.output
    assert "Traceback" not in ended.output
    last = next(line for line in ended.output.splitlines() if "exit code 73: " in line)
    assert "could not be started: " in last
    assert "one of the 8 processes of this node" in last
    assert f"{limit_of(limited)} 6" in last
    assert "OMP_NUM_THREADS" in last


def test_process_limits_cause_a_known_exit_code_and_no_traceback(tmp_path: Path, limited: Limit) -> None:
    codes = {}
    for count in (1, 2, 3, 4, 5, 6, 8, 10, 24):
        node = Node(tmp_path / str(count))
        node.complete_table()
        (node.obs / "bucket" / "in").mkdir(parents=True)
        (node.obs / "bucket" / "in" / "file").write_text("in")
        options = node.mapping({"in": "obs://bucket/in/"}, {"out": "obs://bucket/out/"})
        options += ["--metrics", "1", "--stop-timeout", "1"]
        ended = node.start_by(limited(count), *options, RANK, "write:out/RANK:x").end()
        assert "Traceback" not in ended.output, ended.output
        codes[count] = ended.code
        if ended.code == 73:
            assert limit_of(limited) in ended.output, ended.output
    assert set(codes.values()) <= {0, 73, 74}, codes
    assert (codes[1], codes[24]) == (73, 0), codes


@pytest.mark.parametrize("count", [8, 12, 20])
def test_limit_of_open_files_is_named(tmp_path: Path, count: int) -> None:
    node = Node(tmp_path, devices=8)
    node.complete_table()
    ended = node.start_by(["prlimit", f"--nofile={count}"], RANK, "sleep").end()
    assert ended.code == 73, ended.output
    assert f"ulimit -n is {count}" in ended.output
    assert "Traceback" not in ended.output


def test_failed_start_leaks_no_descriptor(limited: Limit) -> None:
    done = subprocess.run(
        [*limited(1), sys.executable, "-c", DESCRIPTORS], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["channel 0", "guard 0", "program 0", "rank 0"], done


POOL = """
import sys
from path_mapping.errors import NoWorkers
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from path_mapping.workers.retry import RetriedStore
from path_mapping.workers.worker_processes import ProcessPool

to = RetriedStore(ObsStore(Access("http://127.0.0.1:9", Credentials("a", "s"))))
try:
    pool = ProcessPool(to, int(sys.argv[1]), 2)
    while True:
        pool.outcomes(1)
except NoWorkers as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("count", "processes", "why"),
    [(1, 2, "no worker process can be started")],
)
def test_limit_is_named_for_workers_of_a_transfer(
    limited: Limit, count: int, processes: int, why: str
) -> None:
    argv = [*limited(count), sys.executable, "-c", POOL, str(processes)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (why in done.stdout, done.stderr) == (True, ""), done
