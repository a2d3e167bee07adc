"""Jobs that are killed at any moment: the next start goes on from the newest step that was whole in the store."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from ma_boot.rehearsal.obs_server import ObsServer
from path_mapping.stores import FileStore, open_store
from tests.conftest import CREDENTIALS
from tests.fault.test_kill import drawn
from tests.functional.node import PROGRAMS, Booting, Node, eventually, template_two
from tests.functional.programs.saver import content

KILLS = 4  # `make test-kill` has 200
NODES = 2
LAST = 100_000
START_SECONDS = 300.0  # of the whole job; the machine may be busy
_PART = re.compile(r"ckpt/\.ma_boot/sets/(\d+)-(\w+)/(\d+)/part-(\d+)-of-(\d+)\.json")


class KilledJob:
    """A job of two nodes with two ranks each, which share a bucket; its disks are kept from start to start."""

    def __init__(self, base: Path, obs: ObsServer) -> None:
        self.base = base
        self.starts = 0
        self.shared = base
        self.store: FileStore = open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)
        first = Node(base / "node0")
        self.nodes = [first, *(Node(base / f"node{n}", index=n, task=first.task) for n in range(1, NODES))]
        route = {"obs": "obs://bucket/ckpt", "checkpoint": "iter_{step}/rank_{rank}_*.bin"}
        output = {"ckpt": {**route, "restore": "latest", "keep": 2, "interval": 1}}
        for index, node in enumerate(self.nodes):
            node.variables.update({
                "OBS_ENDPOINT": obs.url, **CREDENTIALS, "MA_NUM_HOSTS": str(NODES), "VC_TASK_INDEX": str(index),
                "VC_WORKER_HOSTS": ",".join(f"ma-job-test-{first.task}-{n}" for n in range(NODES)),
            })  # fmt: skip
            table = template_two(NODES, node.devices, f"ma-job-test-{first.task}-{{}}")
            node.table.write_text(json.dumps(table))
            (node.root / "mapping.py").write_text(f"PATH_MAPPING_CONFIG = { ({'output': output})!r}\n")
            shutil.copy(PROGRAMS / "saver.py", node.home)

    def start(self) -> List[Booting]:
        """Starts all nodes; returns when all ranks have said what they found."""
        self.starts += 1  # a rank of the start before may still write to its own
        self.shared = self.base / f"shared-{self.starts}"
        self.shared.mkdir()
        words = ["--python", sys.executable, "saver.py", "ckpt", str(self.shared), str(LAST)]
        running = [
            node.start("--path-mapping", str(node.root / "mapping.py"), "--stop-timeout", "2", *words)
            for node in self.nodes
        ]
        said = [self.shared / f"began_{rank}" for rank in range(2 * NODES)]
        eventually(
            lambda: (
                all(one.exists() for one in said) or any(one.process.poll() is not None for one in running)
            ),
            "the beginning of all ranks",
            START_SECONDS,
        )
        if not all(one.exists() for one in said):
            for one in running:
                one.process.kill()
            raise AssertionError("\n".join(one.end().output for one in running))
        return running

    def began(self) -> List[Dict[str, Any]]:
        return [json.loads((self.shared / f"began_{rank}").read_text()) for rank in range(2 * NODES)]

    def newest_whole(self) -> Optional[Dict[str, Any]]:
        """The step that the next start must go on from: by a reader that shares no code with the toolkit's."""
        sets: Dict[Any, Dict[int, str]] = defaultdict(dict)
        for found in self.store.list("bucket", "ckpt/.ma_boot/sets/"):
            match = _PART.fullmatch(found.key)
            assert match is not None, found.key
            attempt, tag, step, node, nodes = match.groups()
            assert int(nodes) == NODES
            sets[(int(attempt), tag, int(step))][int(node)] = found.key
        for name in sorted(sets):
            if set(sets[name]) == set(range(NODES)):
                parts = [json.loads(self.read(key)) for key in sets[name].values()]
                return {"step": parts[0]["step"], "files": [one for part in parts for one in part["files"]]}
        return None

    def read(self, key: str) -> bytes:
        return b"".join(self.store.read("bucket", key))


def kill(running: List[Booting], chance: random.Random) -> str:
    """Kills a rank, a node or all of the job; the platform stops the rest, or takes its containers away."""
    what = chance.choice(["rank", "node", "all", "stop"])
    victim = chance.choice(running)
    if what == "rank":
        ranks = [pid for pid in children(victim.process.pid) if "saver.py" in command_of(pid)]
        if ranks:
            os.kill(chance.choice(ranks), signal.SIGKILL)
    elif what == "node":
        victim.signal(signal.SIGKILL)
    for one in running:
        if what == "all" and one.process.poll() is None:
            one.signal(signal.SIGKILL)
    time.sleep(chance.choice([0.0, 0.0, chance.uniform(0, 1.5)]))
    for one in running:
        if one.process.poll() is None:
            one.signal(chance.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGKILL]))
    for one in running:
        one.end()
    return what


def children(pid: int) -> List[int]:
    found: List[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def run_kills(obs: ObsServer, tmp_path: Path, kills: int) -> None:
    chance = drawn()
    job = KilledJob(tmp_path, obs)
    restored: List[int] = []
    for _ in range(kills + 1):
        if chance.random() < 0.3:  # a container that was replaced: an empty disk
            shutil.rmtree(chance.choice(job.nodes).home / "ckpt", ignore_errors=True)
        expected = job.newest_whole()
        running = job.start()
        try:
            restored.append(compared(job, expected))
            time.sleep(chance.uniform(0, 4))
        finally:
            how = kill(running, chance)
        print(f"from step {restored[-1]}: {how}", flush=True)
    assert restored[-1] > 0, f"nothing was ever restored: {restored}"


def compared(job: KilledJob, expected: Optional[Dict[str, Any]]) -> int:
    """Compares what each rank has found with what was whole in the store; returns the step."""
    whole = {} if expected is None else {one["path"]: one for one in expected["files"]}
    step = 0 if expected is None else int(expected["step"])
    for path, one in whole.items():
        assert job.read(f"ckpt/{one['key']}").decode() == content(*numbers(path)), "half a file counts"
    for rank, said in enumerate(job.began()):
        assert said["step"] == step
        assert {numbers(path)[0] for path in said["files"]} <= {step}, "files of another step"
        for path, text in said["files"].items():
            assert text == content(*numbers(path)), path
        mine = {path for path in whole if numbers(path)[1] // 2 == rank // 2}
        assert mine <= set(said["files"])
    return step


def numbers(path: str) -> List[int]:
    """The step, the rank and the number of a file."""
    return [int(number) for number in re.findall(r"\d+", path)]


@pytest.mark.timeout(600)
def test_a_job_killed_anywhere_goes_on_from_the_newest_whole_step(obs: ObsServer, tmp_path: Path) -> None:
    run_kills(obs, tmp_path, KILLS)


@pytest.mark.kill
@pytest.mark.timeout(7200)
def test_a_job_killed_at_200_moments(obs: ObsServer, tmp_path: Path) -> None:
    run_kills(obs, tmp_path, 200)
