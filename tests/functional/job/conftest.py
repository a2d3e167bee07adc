"""A stand-in for ModelArts with an OBS beside it, and a project to submit."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Dict, Iterator, Mapping

import pytest

from tests.conftest import CREDENTIALS
from tests.functional.node import PROGRAMS
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
    def environ(self) -> Dict[str, str]:
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
        return subprocess.Popen(
            [sys.executable, "-m", "ma_boot", "job", *words],
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
