"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from ma_boot.processes.children import adopt_orphans
from tests.obs import MemoryObs
from tests.requirement import unavailable
from tests.survivors import close_ended, descendants, end_survivors

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# No deadlines: the machine may be busy with other tests.
settings.load_profile("busy")
settings.register_profile("quick", max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("mutants", max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("fuzz", max_examples=50_000, deadline=None, suppress_health_check=list(HealthCheck))

# In the background or under nohup these are ignored, and every process that a test starts would inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

# Test processes per core: tests wait more than they compute.
PROCESSES_PER_CORE = 3
# Maximum of test processes: each collects all tests and takes 300 MB.
MOST_PROCESSES = 16
FAILED = pytest.StashKey[bool]()

CREDENTIALS = {"OBS_ACCESS_KEY_ID": "AKPLANTED", "OBS_SECRET_ACCESS_KEY": "SKPLANTED"}
KNOWN = [KeyPair("AKPLANTED", "SKPLANTED"), KeyPair("AKPLANTED", "SKPLANTED", "TOKENPLANTED")]


@pytest.fixture
def obs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryObs]:
    """An OBS that injects faults on demand, with an empty bucket named `bucket`."""
    root: Path = tmp_path_factory.mktemp("obs-server")
    with MemoryObs(root, KNOWN) as server:
        server.create_bucket("bucket")
        yield server


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips tests of Open MPI where mpirun is missing."""
    if item.get_closest_marker("openmpi") and not shutil.which("mpirun"):
        unavailable("mpirun is not installed (Debian: openmpi-bin)")


def pytest_configure() -> None:
    """Makes orphans of the tests' processes children of this one, so that `survivors` finds them."""
    adopt_orphans()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Returns the number of processes for `-n auto`."""
    return min(MOST_PROCESSES, PROCESSES_PER_CORE * len(os.sched_getaffinity(0)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Records for the fixtures of a test that it failed."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def survivors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Kills processes that outlive a test; fails a test that passed but left some."""
    before = descendants()
    yield
    if request.node.stash.get(FAILED, False):
        end_survivors(before, grace=0.0)
        close_ended(before)
        return
    killed = end_survivors(before)
    assert not killed, f"outlived the test: {killed}"
