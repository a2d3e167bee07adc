"""Files in OBS behave as Python's own: the same code on a local file and on a URL, in every Python from 3.7 on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import KNOWN
from tests.functional.transfer import everyday_uses
from tests.functional.transfer.interpreters import environment, pythons
from tests.obs import MemoryObs

Results = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=pythons(), ids=lambda python: "-".join(Path(python).parts[-3:-2]))
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Returns the results of all uses in one Python."""
    with MemoryObs(tmp_path_factory.mktemp("obs-server"), KNOWN) as server:
        server.create_bucket("bucket")
        local = tmp_path_factory.mktemp("local")
        argv = [request.param, everyday_uses.__file__, str(local), "obs://bucket/uses"]
        done = subprocess.run(
            argv, env=environment(server), capture_output=True, text=True, timeout=110, check=False
        )
    assert done.returncode == 0, done.stderr
    loaded: Results = json.loads(done.stdout)
    return loaded


@pytest.mark.invariant(
    "A file of `mox.file` replaces its object when it is closed or dropped, never when its `with` block ends by an exception"
)
@pytest.mark.parametrize("use", [use.__name__ for use in everyday_uses.USES])
def test_a_file_in_obs_behaves_as_a_local_one(results: Results, use: str) -> None:
    assert results["url"][use] == results["local"][use]
    assert "Error" not in str(results["local"][use])[:40] or use in ("unsupported", "wrong_modes"), (
        "the use itself fails"
    )
