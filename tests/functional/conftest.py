"""The two stores, for the tests that hold for both."""

from __future__ import annotations

from pathlib import Path

import pytest

from ma_boot.local.obs_server import ObsServer
from path_mapping.store import Store
from path_mapping.stores import open_store
from tests.conftest import CREDENTIALS


@pytest.fixture(params=["directory", "obs"])
def store(request: pytest.FixtureRequest, tmp_path: Path, obs: ObsServer) -> Store:
    if request.param == "directory":
        (tmp_path / "root" / "bucket").mkdir(parents=True)
        return open_store({}, tmp_path / "root")
    return open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)
