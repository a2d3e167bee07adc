"""Fixtures shared by several folders: a node, bwrap, stores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Callable

import pytest

from ma_boot.desk.rehearsal.obs_server.buckets import Buckets
from ma_boot.desk.rehearsal.obs_server.server import ObsServer
from path_mapping.stores.open_store import open_store
from path_mapping.stores.store import Store
from tests.conftest import CREDENTIALS, KNOWN
from tests.functional.node import Node
from tests.obs import MemoryObs
from tests.requirement import unavailable
from tests.transfers import tls_context


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with a completed rank table."""
    node = Node(tmp_path)
    node.complete_table()
    return node


@pytest.fixture
def bubblewrap() -> None:
    """Skips the test where bwrap is not installed."""
    if shutil.which("bwrap", path="/usr/bin:/bin") is None:
        unavailable("bwrap: not installed (Debian: bubblewrap)")


@pytest.fixture(params=["directory", "obs", "served directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, obs: MemoryObs) -> Iterator[Store]:
    if request.param == "obs":
        yield open_store({"OBS_ENDPOINT": obs.url, **CREDENTIALS}, None)
        return
    (tmp_path / "root" / "bucket").mkdir(parents=True)
    if request.param == "directory":
        yield open_store({}, tmp_path / "root")
        return
    with ObsServer(Buckets(tmp_path / "root"), tmp_path / "parts", KNOWN) as server:
        yield open_store({"OBS_ENDPOINT": server.url, **CREDENTIALS}, None)


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Starts an OBS on localhost with TLS and a certificate for the given name, signed by the CA in ca.pem."""
    with ExitStack() as servers:

        def serve(name: str) -> str:
            context = tls_context(tmp_path / "ca.pem", name)
            server = servers.enter_context(MemoryObs(tmp_path / "obs", KNOWN, "localhost", tls=context))
            server.create_bucket("bucket")
            return server.url

        yield serve
