"""radosgw behind a proxy that breaks requests, and boto3 that does not go through it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from path_mapping.stores.obs_store import ObsStore
from tests.conformance.clients import Account, Boto
from tests.conformance.conftest import store_of, variables
from tests.obs import FaultProxy


class Bucket:
    """A new bucket on radosgw: `witness` asks the server itself, transfers go through `proxy`."""

    def __init__(self, account: Account, proxy: FaultProxy) -> None:
        self.name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.account, self.proxy = account, proxy
        self.witness = Boto(account, self.name)
        assert self.witness.create_bucket().status == 200

    def store(self) -> ObsStore:
        """A store behind the proxy."""
        return store_of(self.account, self.proxy.url, timeout=2.0)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of `ma_boot sync` behind the proxy."""
        return variables(self.account, self.proxy.url)


@pytest.fixture
def bucket(radosgw_account: Account) -> Iterator[Bucket]:
    with FaultProxy(radosgw_account.url) as proxy:
        yield Bucket(radosgw_account, proxy)
