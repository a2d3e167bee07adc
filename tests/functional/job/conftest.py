"""A stand-in for ModelArts with an OBS beside it, and a project to submit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from path_mapping.mapping.routes import ObsUrl, Route
from path_mapping.stores.open_store import open_store
from path_mapping.transfer.transfer import upload
from path_mapping.workers.retry import RetriedStore
from tests.conftest import CREDENTIALS
from tests.functional.node import PROGRAMS
from tests.job_api.job import StandInJob
from tests.job_api.stand_in import PROJECT, ModelArtsStandIn
from tests.obs import MemoryObs

JOB = """\
name: first
image: vision/resnet:1
command: train.py print:hello
options: {rendezvous: torch}
nodes: 2
devices-per-node: 2
pool: pool-1
flavor: modelarts.pool.visual.2xlarge
code-url: obs://bucket/jobs/
log-url: obs://bucket/log/
"""


NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Desk:
    """Where somebody submits jobs from: a project, ModelArts and OBS."""

    project: Path
    api: ModelArtsStandIn
    obs: MemoryObs

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self.project.parent / "home"),
            "NO_PROXY": "127.0.0.1",
            "DOCKER_HOST": "tcp://127.0.0.1:1",  # no engine is asked for the image
            "HUAWEICLOUD_SDK_PROJECT_ID": PROJECT,
            "MODELARTS_ENDPOINT": self.api.url,
            "MABOOT_INTERVAL": "0.05",
            "OBS_ENDPOINT": self.obs.url,
            **CREDENTIALS,
        }

    def start(self, *words: str, more: Mapping[str, str] = NOTHING) -> subprocess.Popen[bytes]:
        """Starts `ma_boot job ...`."""
        return self._start("job", *words, more=more)

    def _start(self, *words: str, more: Mapping[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "ma_boot", *words],
            cwd=self.project,
            env={**self.environ, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def job(self, *words: str, more: Mapping[str, str] = NOTHING) -> Done:
        """Runs `ma_boot job ...` to its end."""
        process = self.start(*words, more=more)
        out, err = process.communicate(timeout=100)
        assert b"PLANTED" not in out + err, "a secret is printed"
        assert b"Traceback (most" not in err, err.decode()
        return Done(process.returncode, out.decode(), err.decode())

    def submitted(self, *words: str) -> StandInJob:
        """Submits the job, which does what the test says."""
        self.api.rehearse = False
        done = self.job("submit", "job.yaml", *words)
        assert done.code == 0, done.err
        return self.api.jobs[done.out.strip()]

    def rehearsed(self, *words: str, more: Mapping[str, str] = NOTHING) -> str:
        """Rehearses the job beside the project; returns what it prints."""
        options = ("--local", *words, "--job", "job.yaml", "--rehearsal-dir", "../local")
        process = self._start(*options, more=more)
        out, _ = process.communicate(timeout=100)
        assert process.returncode == 0, out.decode()
        return out.decode()

    def put_input(self) -> None:
        """Uploads `obs://bucket/data/x`, which says `input`."""
        (self.project.parent / "x").write_text("input")
        route = Route("x", ObsUrl("bucket", "data/x"))
        store = open_store(self.environ, None)
        upload([route], self.project.parent, RetriedStore(store))


@pytest.fixture
def desk(tmp_path: Path, obs: MemoryObs) -> Iterator[Desk]:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "home").mkdir()
    (project / "train.py").write_text((PROGRAMS / "rank.py").read_text())
    (project / "job.yaml").write_text(JOB)
    with ModelArtsStandIn(tmp_path / "jobs", {"OBS_ENDPOINT": obs.url, **CREDENTIALS}) as api:
        yield Desk(project, api, obs)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ModelArtsStandIn]:
    """ModelArts alone, whose jobs do what a test says."""
    with ModelArtsStandIn(tmp_path, {}, rehearse=False) as stand_in:
        yield stand_in
