"""radosgw behind a proxy that breaks requests, and boto3 that does not go through it."""

from __future__ import annotations

import uuid
from typing import Any, Iterator

import pytest

from path_mapping.stores import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from tests.conformance.clients import Account, Boto
from tests.obs import FaultProxy

MIB = 1 << 20


class Bucket:
    """A new bucket on radosgw: `witness` asks the server itself, transfers go through `proxy`."""

    def __init__(self, account: Account, proxy: FaultProxy) -> None:
        self.name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.account, self.proxy = account, proxy
        self.witness = Boto(account, self.name)
        assert self.witness.create_bucket().status == 200

    def store(self, **settings: Any) -> ObsStore:
        """A store behind the proxy, with parts that are small enough for a test."""
        sizes = {"multipart_from": 12 * MIB, "part": 5 * MIB, "timeout": 2.0, **settings}
        keys = Credentials(self.account.access_key, self.account.secret_key)
        return ObsStore(Access(self.proxy.url, keys, **sizes))


@pytest.fixture
def bucket(radosgw_account: Account) -> Iterator[Bucket]:
    with FaultProxy(radosgw_account.url) as proxy:
        yield Bucket(radosgw_account, proxy)
