"""The servers of the conformance tests, each with the clients that work with it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from tests.conformance import radosgw as ceph
from tests.conformance.clients import Account, Boto, Client, Sdk
from tests.conformance.shared_radosgw import shared
from tests.obs import FaultProxy, MemoryObs
from tests.requirement import unavailable

RADOSGW = pytest.mark.radosgw
ON_BOTH = pytest.mark.parametrize(
    "pair", [("embedded", "v2"), pytest.param(("radosgw", "v2"), marks=RADOSGW)]
)
RENEWED = KeyPair(ceph.NEW_ACCESS_KEY, ceph.NEW_SECRET_KEY)
PAIRS = [
    pytest.param(("embedded", "obs"), id="embedded-esdk-obs"),
    pytest.param(("embedded", "v2"), id="embedded-esdk-v2"),
    pytest.param(("embedded", "v4"), id="embedded-boto3-v4"),
    pytest.param(("radosgw", "v2"), id="radosgw-esdk-v2", marks=RADOSGW),
    pytest.param(("radosgw", "v4"), id="radosgw-boto3-v4", marks=RADOSGW),
]

MIB = 1 << 20

MakeClient = Callable[[Account], Client]


def store_of(account: Account, url: str = "", **settings: Any) -> ObsStore:
    """The account's objects, by this URL, with parts that are small enough for a test."""
    settings = {"multipart_from": 12 * MIB, "part": 5 * MIB, **settings}
    return ObsStore(
        Access(url or account.url, Credentials(account.access_key, account.secret_key), **settings)
    )


def variables(account: Account, url: str) -> dict[str, str]:
    """The environment of `ma_boot sync` for the account's objects by this URL."""
    return {
        "PATH": os.environ["PATH"],
        "OBS_ENDPOINT": url,
        "OBS_ACCESS_KEY_ID": account.access_key,
        "OBS_SECRET_ACCESS_KEY": account.secret_key,
    }


@pytest.fixture(scope="session")
def embedded_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Our own server."""
    with MemoryObs(tmp_path_factory.mktemp("obs"), [KeyPair("AKPLANTED", "SKPLANTED"), RENEWED]) as server:
        yield Account(server.url, "AKPLANTED", "SKPLANTED")


@pytest.fixture(scope="session")
def radosgw_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """Debian's radosgw, one for all processes of this run; without it its tests are skipped."""
    missing = ceph.missing()
    if missing:
        unavailable(f"{', '.join(missing)}: not installed (Debian: ceph-mon ceph-osd radosgw ceph-common)")
    base = tmp_path_factory.getbasetemp()
    with shared(Path(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base, "ceph")) as url:
        yield Account(url, ceph.ACCESS_KEY, ceph.SECRET_KEY)


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A server's name and the signature that a client uses with it."""
    chosen: tuple[str, str] = request.param
    return chosen


@pytest.fixture
def account(request: pytest.FixtureRequest, pair: tuple[str, str]) -> Account:
    """The account on the pair's server."""
    chosen: Account = request.getfixturevalue(f"{pair[0]}_account")
    return chosen


@pytest.fixture
def connect(pair: tuple[str, str]) -> MakeClient:
    """Makes a client of the pair, for a new bucket that does not exist yet."""
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"

    def make(account: Account) -> Client:
        return Boto(account, bucket) if pair[1] == "v4" else Sdk(account, bucket, pair[1])

    return make


@pytest.fixture
def client(connect: MakeClient, account: Account) -> Client:
    """The pair's client, in an empty bucket."""
    made = connect(account)
    assert made.create_bucket().status == 200
    return made


@pytest.fixture
def proxy(account: Account) -> Iterator[FaultProxy]:
    """Proxy that breaks requests on their way to the pair's server."""
    with FaultProxy(account.url) as proxy:
        yield proxy
