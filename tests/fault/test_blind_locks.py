"""Two nodes that download to one directory, on a file system where neither sees the locks of the other."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from path_mapping.localfs.atomic_file import allocate
from path_mapping.transfer import download_jobs
from path_mapping.transfer.transfer import Transferred
from tests.fault.large_objects import LARGE, asked, names, put
from tests.functional.node import eventually
from tests.obs import MemoryObs, obs_fault
from tests.transfers import fetch, obs_store


@pytest.fixture(autouse=True)
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks succeed on each node, as on NFS with `nolock`."""
    monkeypatch.setattr(fcntl, "flock", lambda file, operation: None)


def test_second_node_gets_the_complete_file_after_the_first_moved_it(obs: MemoryObs, tmp_path: Path) -> None:
    put(obs, "in/large", LARGE, tmp_path)
    obs.faults.append(obs_fault("hang", "GET", "/in/large", times=1))
    done: list[Transferred] = []
    second = threading.Thread(target=lambda: done.append(fetch(obs_store(obs.url), tmp_path)))
    second.start()
    eventually(lambda: asked(obs, "GET", "/in/large"), "the second node asks for its first range")
    fetch(obs_store(obs.url), tmp_path)
    assert (tmp_path / "in" / "large").read_bytes() == LARGE
    obs.release.set()
    second.join()
    assert [transferred.files for transferred in done] == [1]
    assert (tmp_path / "in" / "large").read_bytes() == LARGE
    assert names(tmp_path / "in") == ["large"]


def test_a_finished_file_is_never_emptied(
    obs: MemoryObs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first node does all its work between the second node's look at a file and its next action."""
    put(obs, "in/large", LARGE, tmp_path)
    contents: list[bytes] = []

    def late(file: int, size: int) -> None:
        monkeypatch.setattr(download_jobs, "allocate", allocate)
        fetch(obs_store(obs.url), tmp_path)
        allocate(file, size)
        contents.append((tmp_path / "in" / "large").read_bytes())

    monkeypatch.setattr(download_jobs, "allocate", late)
    fetch(obs_store(obs.url), tmp_path)
    assert contents == [LARGE]
    assert (tmp_path / "in" / "large").read_bytes() == LARGE
    assert names(tmp_path / "in") == ["large"]
