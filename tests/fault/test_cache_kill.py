"""Jobs killed while they publish a compile cache: the next start finds the newest whole one, byte by byte."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import CREDENTIALS
from tests.fault.checkpoint_kills import Moments
from tests.fault.seeds import drawn
from tests.functional.node import Node
from tests.obs import MemoryObs

KILLS = 4  # `make test-kill` has 60
FILES = 20
# What OBS is asked for while a cache is published, and how often.
REQUESTS = [
    (("PUT", r"/bucket/caches/.*/attempt-.*"), FILES),
    (("PUT", r".*/manifests/.*/part-.*"), 1),
    (("PUT", r".*/removals/.*"), 1),
    (("DELETE", r".*"), FILES),
]
COMPILING = """
import os, sys
from pathlib import Path
cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
names = sorted(path.name for path in cache.glob("*.so"))
wrong = [name for name in names if (cache / name).read_text() != name * 1000]
print(f"found {len(names)}, wrong {wrong}, generations {sorted({name.split('-')[0] for name in names})}", flush=True)
for number in range(int(sys.argv[2])):
    name = f"{sys.argv[1]}-{number}.so"
    (cache / name).write_text(name * 1000)
"""


class KilledJob:
    """A job whose starts compile `FILES` new files each, every one in a container of its own."""

    def __init__(self, root: Path, obs: MemoryObs) -> None:
        self.root, self.starts = root, 0
        obs.create_bucket("bucket")
        self.obs = obs
        obs.seen = self.moments = Moments(obs.seen)

    def node(self, code: str) -> tuple[Node, list[str]]:
        """Returns a new container, and the arguments of ma_boot."""
        self.starts += 1
        node = Node(self.root / f"start-{self.starts}", devices=1)
        node.variables.update({"OBS_ENDPOINT": self.obs.url, **CREDENTIALS})
        node.complete_table()
        (node.home / "code").mkdir()
        (node.home / "code" / "train.py").write_text(code)
        (node.root / "mapping.json").write_text(
            json.dumps({"cache": {"cc": {"obs": "obs://bucket/caches", "keep": 1}}})
        )
        return node, ["--path-mapping", str(node.root / "mapping.json"), "--python", sys.executable]

    def run(self, files: int) -> str:
        """Runs a start to its end; returns what its rank has found."""
        node, options = self.node(COMPILING)
        ended = node.boot(*options, "code/train.py", f"g{self.starts}", str(files))
        assert ended.code == 0, ended.output
        return next(line for line in ended.output.splitlines() if "found " in line)

    def kill(self, request: tuple[str, str], number: int) -> bool:
        """Kills a start at a request; returns whether it came to that."""
        self.moments.wait_for(request, number)
        node, options = self.node(COMPILING)
        booting = node.start(*options, "code/train.py", f"g{self.starts}", str(FILES))
        until = time.monotonic() + 30
        while (
            not self.moments.come.wait(0.01) and booting.process.poll() is None and time.monotonic() < until
        ):
            pass
        if booting.process.poll() is None:
            os.kill(booting.process.pid, signal.SIGKILL)
        booting.process.communicate()
        return self.moments.come.is_set()


def run_kills(job: KilledJob, kills: int) -> None:
    chance, came = drawn(), 0
    assert "found 0, wrong []" in job.run(FILES)
    for _ in range(kills):
        request, times = chance.choice(REQUESTS)
        came += job.kill(request, chance.randint(1, times))
        found = job.run(0)
        assert "wrong []" in found
        number = int(found.partition("found ")[2].partition(",")[0])
        # Whole generations only, the first one at least.
        assert number >= FILES, found
        assert number % FILES == 0, found
    assert came > 0


@pytest.mark.invariant("A start finds the newest whole compile cache, after a kill at any moment")
@pytest.mark.timeout(300)
def test_job_killed_while_it_publishes_leaves_a_whole_cache(obs: MemoryObs, tmp_path: Path) -> None:
    run_kills(KilledJob(tmp_path, obs), KILLS)


@pytest.mark.kill
@pytest.mark.timeout(3600)
def test_job_killed_at_60_moments_leaves_a_whole_cache_each_time(obs: MemoryObs, tmp_path: Path) -> None:
    run_kills(KilledJob(tmp_path, obs), 60)
