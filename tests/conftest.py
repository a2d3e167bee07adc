"""Servers that several tests share."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Iterator

import pytest
from hypothesis import HealthCheck, settings

from ma_boot.local.obs_server import Credentials, ObsServer

settings.register_profile("fuzz", max_examples=50_000, deadline=None, suppress_health_check=list(HealthCheck))

signal.signal(
    signal.SIGHUP, signal.SIG_DFL
)  # who runs the tests under nohup would have it ignored in all of them

CREDENTIALS = {"OBS_ACCESS_KEY_ID": "AKPLANTED", "OBS_SECRET_ACCESS_KEY": "SKPLANTED"}
KNOWN = [Credentials("AKPLANTED", "SKPLANTED"), Credentials("AKPLANTED", "SKPLANTED", "TOKENPLANTED")]


@pytest.fixture
def obs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObsServer]:
    """An OBS that breaks what it is told to, with an empty bucket named `bucket`."""
    root: Path = tmp_path_factory.mktemp("obs-server")
    with ObsServer(root, KNOWN) as server:
        server.create_bucket("bucket")
        yield server
