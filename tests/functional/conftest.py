"""The stores, for the tests that hold for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

import pytest

from ma_boot.local.obs_server import ObsServer
from ma_boot.local.obs_server.directory import DirectoryBuckets
from path_mapping.store import Store
from path_mapping.stores import open_store
from tests.conftest import CREDENTIALS, KNOWN


@pytest.fixture(params=["directory", "obs", "served directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, obs: ObsServer) -> Iterator[Store]:
    if request.param == "obs":
        yield open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)
        return
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    if request.param == "directory":
        yield open_store({}, tmp_path / "root")
        return
    with ObsServer(tmp_path / "parts", KNOWN, buckets=DirectoryBuckets(tmp_path / "root")) as server:
        yield open_store({"OBS_ENDPOINT": server.url, **CREDENTIALS}, None)
