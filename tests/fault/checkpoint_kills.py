"""A job with checkpoints that is killed again and again: each start resumes from the newest complete one.

A chain of starts: each one is the proof of the kill before, and the victim of the next. What a training has to do is
little: each rank prints `restored {...}` with the step and the digests of all files that it finds, and after each step
`saved {...}` with the digest of its weights, which must be the same whenever that step is trained.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Callable, NamedTuple

from ma_boot.node.checkpoints.by_hand import StoredCheckpoints
from path_mapping.mapping.routes import ObsUrl
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store
from path_mapping.workers.retry import RetryPolicy
from tests.conftest import CREDENTIALS
from tests.functional.node import Node, alive, eventually, template_two
from tests.obs import MemoryObs

NODES = 2
START_SECONDS = 300.0  # of the whole job; the machine may be busy
MOMENT_SECONDS = 20.0  # for which a moment is waited for, before the job is killed at another
_PART = re.compile(
    r"ckpt/\.ma_boot/manifests/(\d+)-(\w+)/(\d+)-(\d+)-(explicit|inferred)/part-(\d+)-of-(\d+)(-empty)?\.json"
)
_DATA = r"/bucket/ckpt/attempt-.*"

# What an OBS is asked for at a moment: method and path. The others are seen on the disk, or come by themselves.
REQUESTS = {
    "a file goes up": ("PUT", _DATA),
    "a manifest goes up": ("PUT", r".*/manifests/.*/part-.*"),
    "a removal is noted": ("PUT", r".*/removals/.*"),
    "a set is removed": ("DELETE", r".*"),
}
MOMENTS = ("training", "a file is written", *REQUESTS)
VICTIMS = ("a rank", "a node", "a boot", "everything", "a stop")


class Training(NamedTuple):
    """A training: the options of ma_boot, the command, and the names of its checkpoints.

    `{shared}` in a word is a directory that all ranks of a start see. `rank_of` finds the
    rank in a path, where a node has the files of its own ranks only. `content` is what a file must have, where
    that is known.
    """

    options: Sequence[str]
    command: Sequence[str]
    checkpoint: str
    devices: int = 2
    rank_of: Callable[[str], int] | None = None
    content: Callable[[str], bytes] | None = None


class WholeSet(NamedTuple):
    """A complete checkpoint, by a reader that shares no code with the toolkit's.

    `order` is ascending with time; `files` are the digests of the objects by path.
    """

    order: tuple[int, int]
    step: str
    files: dict[str, str]


class Moments(list[Any]):
    """Log of an OBS server that signals the request of a given number."""

    def __init__(self, seen: Sequence[Any]) -> None:
        super().__init__(seen)
        self.come = Event()
        self._waited: tuple[str, str] | None = None
        self._left = 0

    def wait_for(self, request: tuple[str, str], number: int) -> None:
        """From now on, the request of this number sets `come`."""
        self.come.clear()
        self._waited, self._left = request, number

    def append(self, request: Any) -> None:
        """Called for each request before it is served."""
        super().append(request)
        waited = self._waited
        if waited and request.method == waited[0] and re.fullmatch(waited[1], request.path):
            self._left -= 1
            if self._left <= 0:
                self._waited = None
                self.come.set()


@dataclass
class Running:
    """A start of the job."""

    log: Path
    boots: list[subprocess.Popen[bytes]]

    def reports(self, word: str) -> list[dict[str, Any]]:
        """Returns the lines of the ranks, by rank, without a line that is still being written."""
        lines = self.log.read_text(errors="replace").splitlines(keepends=True)
        texts = [
            line.partition(f"{word} ")[2] for line in lines if f"] {word} {{" in line and line.endswith("}\n")
        ]
        return sorted(map(json.loads, texts), key=lambda report: int(report["rank"]))

    def end(self) -> None:
        """Waits for the end of all nodes and their processes."""
        for boot in self.boots:
            boot.wait(START_SECONDS)
        ranks = [int(report["pid"]) for report in self.reports("restored")]
        eventually(lambda: not any(map(alive, ranks)), "the ranks have ended")


class KilledJob:
    """A job of two nodes that share a bucket; most of their disks are kept from start to start."""

    def __init__(self, base: Path, obs: MemoryObs, training: Training) -> None:
        self.base, self.training, self.ranks = base, training, NODES * training.devices
        self.starts = 0
        self.log = base / "log"
        self.store: Store = open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)
        self.requests = Moments(obs.seen)
        obs.seen = self.requests
        self.weights: dict[str, str] = {}
        first = Node(base / "node0", training.devices)
        others = (
            Node(base / f"node{n}", training.devices, index=n, task=first.task) for n in range(1, NODES)
        )
        self.nodes = [first, *others]
        route = {"obs": "obs://bucket/ckpt", "checkpoint": training.checkpoint}
        output = {"checkpoints": {**route, "restore": "latest", "keep": 2, "interval": 1}}
        hosts = ",".join(f"127.0.0.{n + 1}" for n in range(NODES))
        for index, node in enumerate(self.nodes):
            node.variables.update({
                "OBS_ENDPOINT": obs.url, **CREDENTIALS, "MA_NUM_HOSTS": str(NODES), "VC_TASK_INDEX": str(index),
                "VC_WORKER_HOSTS": hosts, "GLOG_v": "3", "OMP_NUM_THREADS": "1",
            })  # fmt: skip
            table = template_two(NODES, node.devices, f"ma-job-test-{first.task}-{{}}")
            node.table.write_text(json.dumps(table))
            (node.root / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = { ({'output': output})!r}\n")

    def start(self) -> Running:
        """Starts all nodes; returns when all ranks have printed the checkpoint that they found."""
        self.starts += 1
        self.log = self.base / f"start-{self.starts}.log"
        shared = self.base / f"shared-{self.starts}"  # a rank of the start before may still write to its own
        shared.mkdir()
        port = free_port()
        boots: list[subprocess.Popen[bytes]] = []
        for node in self.nodes:
            words = [
                "--path-mapping", str(node.root / "mapping.py"), "--stop-timeout", "2",
                *(word.format(shared=shared) for word in (*self.training.options, *self.training.command)),
            ]  # fmt: skip
            with self.log.open("ab") as stream:
                boots.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "ma_boot", *words], cwd=node.home,
                        env={
                            **node.environ(),
                            "MABOOT_RENDEZVOUS_PORT": str(port),
                            "TMPDIR": str(node.root),  # for what the killed ones leave
                        },
                        stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                    )
                )  # fmt: skip
        running = Running(self.log, boots)
        try:
            self._until_all_ranks_run(running)
        except BaseException:
            for boot in boots:
                boot.kill()
                boot.wait()
            raise
        return running

    def _until_all_ranks_run(self, running: Running) -> None:
        eventually(
            lambda: (
                len(running.reports("restored")) == self.ranks
                or any(boot.poll() is not None for boot in running.boots)
            ),
            "all ranks run",
            START_SECONDS,
        )
        assert len(running.reports("restored")) == self.ranks, self.log.read_text(errors="replace")

    def newest_complete(self) -> WholeSet | None:
        """Returns the checkpoint that the next start must resume from, with the digests of its files in the store."""
        sets: dict[Any, dict[int, str]] = defaultdict(dict)
        for stored in self.store.list("bucket", "ckpt/.ma_boot/manifests/"):
            match = _PART.fullmatch(stored.key)
            assert match is not None, stored.key
            attempt, tag, step, version, kind, node, nodes, _ = match.groups()
            assert int(nodes) == NODES
            sets[(int(attempt), tag, int(step), int(version), kind)][int(node)] = stored.key
        for name in sorted(sets):
            if set(sets[name]) == set(range(NODES)):
                parts = [json.loads(self.read(key)) for key in sets[name].values()]
                files = {
                    file["path"]: self.read(f"ckpt/{file['key']}") for part in parts for file in part["files"]
                }
                digests = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
                return WholeSet((-name[0], parts[0]["step"]), parts[0]["step_name"], digests)
        return None

    def prune(self) -> None:
        """Removes by `ma_boot` the leftovers of killed steps: all of them, and no file of a complete checkpoint."""
        before = self.newest_complete()
        stored = StoredCheckpoints(self.store, ObsUrl("bucket", "ckpt"), Event(), RetryPolicy(60))
        stored.remove([], stored.find_leftovers(0.0))
        assert self.newest_complete() == before
        manifests = [
            found.key
            for found in self.store.list("bucket", "ckpt/.ma_boot/manifests/")
            if "/part-" in found.key
        ]
        named = {f"ckpt/{file['key']}" for key in manifests for file in json.loads(self.read(key))["files"]}
        assert {found.key for found in self.store.list("bucket", "ckpt/attempt-")} == named

    def read(self, key: str) -> bytes:
        """An object; it must be there."""
        return b"".join(self.store.read("bucket", key))

    def compare(self, running: Running, expected: WholeSet | None) -> None:
        """Checks that each rank has this step and, on its node's disk, exactly the files of this checkpoint."""
        rank_of, content, devices = self.training.rank_of, self.training.content, self.training.devices
        for path, digest in expected.files.items() if expected else ():
            assert content is None or digest == hashlib.sha256(content(path)).hexdigest(), (
                f"half of {path} counts"
            )
        for report in running.reports("restored"):
            assert report["step"] == (expected.step if expected else None), self.log.read_text(
                errors="replace"
            )
            files = expected.files if expected else {}
            mine = {
                path: digest
                for path, digest in files.items()
                if rank_of is None or rank_of(path) // devices == report["rank"] // devices
            }
            assert report["files"] == mine, f"rank {report['rank']}"

    def learn(self, running: Running) -> int:
        """Checks that steps trained twice have the same result; returns the number of steps."""
        steps = set()
        for report in running.reports("saved"):
            steps.add(report["step"])
            assert self.weights.setdefault(report["step"], report["weights"]) == report["weights"], (
                f"step {report['step']} of rank {report['rank']} in start {self.starts}: other weights than before"
            )
        return len(steps)


def free_port() -> int:
    """Returns a free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def run_kills(job: KilledJob, chance: random.Random, kills: int) -> str:
    """Kills the job so often, each time in another way at another moment; returns the kills.

    More often if it has never resumed from a checkpoint by then.
    """
    counted: Counter[str] = Counter()
    expected: WholeSet | None = None
    trained = 0
    for number in range(4 * kills + 1):
        if number > kills and expected is not None:  # else all came before the first set was whole
            break
        if chance.random() < 0.3:  # a container that was replaced: an empty disk
            gone = chance.choice(job.nodes).home
            shutil.rmtree(gone / "checkpoints", ignore_errors=True)
            shutil.rmtree(gone / ".checkpoints.aside", ignore_errors=True)
        if chance.random() < 0.1:
            job.prune()
        before, expected = expected, job.newest_complete()
        assert before is None or (expected is not None and expected.order >= before.order), (before, expected)
        running = job.start()
        try:
            job.compare(running, expected)
            moment = wait_for_moment(job, running, chance)
        finally:
            victim = kill(running, chance)
            running.end()
        trained += job.learn(running)
        counted[moment] += 1
        counted[victim] += 1
        step = expected.step if expected else "nothing"
        print(f"kill {number + 1}: from {step}: {victim} while {moment}", flush=True)
        job.log.unlink()
    job.prune()
    assert expected is not None, "nothing was ever restored"
    return f"{kills} kills, up to step {expected.step}, {trained} steps trained: {dict(counted)}"


def wait_for_moment(job: KilledJob, running: Running, chance: random.Random) -> str:
    """Waits for a random moment, or shortly after it; returns which one it was."""
    moment = chance.choice(MOMENTS)
    number, later = chance.choice([1, 1, 2, 3, 5]), chance.choice([0.0, 0.0, chance.uniform(0, 0.05)])
    until = time.monotonic() + MOMENT_SECONDS

    def ended() -> bool:
        return time.monotonic() > until or any(boot.poll() is not None for boot in running.boots)

    if moment in REQUESTS:
        job.requests.wait_for(REQUESTS[moment], number)
        while not job.requests.come.wait(0.1) and not ended():
            pass
        moment = moment if job.requests.come.is_set() else f"waiting until {moment}"
    elif moment == "a file is written":
        known = files_of(job)
        while files_of(job) <= known and not ended():
            time.sleep(0.001)
    else:
        later = chance.uniform(0, 4)
    time.sleep(later)
    return moment


def files_of(job: KilledJob) -> set[str]:
    """Returns all files of checkpoints on the disks, unfinished ones too."""
    return {
        os.path.join(directory, name)
        for node in job.nodes
        for directory, _, names in os.walk(node.home / "checkpoints")
        for name in names
    }


def kill(running: Running, chance: random.Random) -> str:
    """Kills a rank, a node, its ma_boot, or the whole job; the platform then ends the remaining processes."""
    what = chance.choice(VICTIMS)
    victim = chance.choice(running.boots)
    if what == "a rank":
        pids = [int(report["pid"]) for report in running.reports("restored")]
        kill_all([chance.choice(pids)] if pids else [])
    elif what == "a boot":  # its guard ends the ranks
        kill_all([victim.pid])
    elif what == "a node":
        kill_all([victim.pid, *descendants(victim.pid)])
    elif what == "everything":
        kill_all([pid for boot in running.boots for pid in (boot.pid, *descendants(boot.pid))])
    time.sleep(chance.choice([0.0, 0.0, chance.uniform(0, 1.5)]))
    for boot in running.boots:
        if boot.poll() is None:
            boot.send_signal(chance.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGKILL]))
    return what


def kill_all(pids: Sequence[int]) -> None:
    """SIGKILL to processes that this test has started."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Returns the descendants of a process."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += map(int, task.read_text().split())
    return children + [below for child in children for below in descendants(child)]
