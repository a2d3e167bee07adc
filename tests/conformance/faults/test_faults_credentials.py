"""Temporary credentials that end before any request of a transfer, or of `mox.file`: the renewed ones are used."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

import path_mapping as mox
from path_mapping.errors import Cancelled, Expired, Refused, TransferFailed
from path_mapping.file import file_tree
from path_mapping.stores import obs_store
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.obs_store import ObsStore
from tests import transfers
from tests.conformance.clients import Account, Client
from tests.conformance.conftest import MIB, ON_BOTH, RENEWED
from tests.obs import Fault, FaultProxy, Seen, operation
from tests.transfers import route, tree, write

LARGE = random.Random(5).randbytes(33 * MIB + 5)  # three ranges
UPLOADED = LARGE[: 11 * MIB]  # three parts
SMALL = {f"d/{number}": bytes([number]) * number for number in range(4)}
LATE_SECONDS = 0.4
EVERY = 10_000

pytestmark = ON_BOTH


class Temporary:
    """Credentials of a service behind a proxy, which refuses the first ones from some request on."""

    def __init__(self, account: Account) -> None:
        self.first = Credentials(account.access_key, account.secret_key)
        self.newest = self.first
        self.late: list[threading.Timer] = []

    def renew(self) -> None:
        self.newest = Credentials(RENEWED.access_key, RENEWED.secret_key)

    def end_before(
        self, proxy: FaultProxy, number: int, late: float = 0.0, code: str = "ExpiredToken"
    ) -> None:
        """From this request on only the renewed credentials are accepted; they are there `late` seconds later."""
        renewing = threading.Event()

        def ended(seen: Seen) -> bool:
            return seen.number >= number and seen.access_key == self.first.access_key

        def renew(seen: Seen) -> None:
            if renewing.is_set():
                return
            renewing.set()
            if late:
                self.late.append(threading.Timer(late, self.renew))
                self.late[-1].start()
            else:
                self.renew()

        proxy.faults.append(Fault(ended, times=EVERY, before=renew, status=403, code=code))

    def open(self, proxy: FaultProxy, patience: float = 10) -> ObsStore:
        self.newest = self.first
        access = Access(proxy.url, self.first, multipart_from=6 * MIB, part=5 * MIB)
        return ObsStore(access, lambda: self.newest, patience=patience)


@pytest.fixture
def temporary(account: Account) -> Iterator[Temporary]:
    made = Temporary(account)
    yield made
    for timer in made.late:
        timer.join()


def chosen(pair: tuple[str, str], requests: int) -> list[int]:
    """All numbers of requests, and one more; with radosgw, which is slower, a sample by a seed."""
    numbers = list(range(1, requests + 1))
    return numbers if pair[0] == "embedded" else sorted(random.Random(17).sample(numbers, 5))


def at_every_request(
    pair: tuple[str, str], temporary: Temporary, account: Account, move: Callable[[ObsStore, str], None]
) -> None:
    """Moves once to count the requests; then ends the credentials before each in turn."""
    with FaultProxy(account.url) as proxy:
        move(temporary.open(proxy), "whole")
        requests = len(proxy.seen)
    for number in chosen(pair, requests):
        with FaultProxy(account.url) as proxy:
            temporary.end_before(proxy, number, LATE_SECONDS if number % 2 == 0 else 0.0)
            try:
                move(temporary.open(proxy), f"from-{number}")
            except Exception as error:
                raise AssertionError(f"credentials ended before request {number} of {requests}") from error
            assert any(seen.access_key == RENEWED.access_key for seen in proxy.seen)


def test_a_download_goes_on_whenever_they_end(
    pair: tuple[str, str],
    temporary: Temporary,
    account: Account,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(obs_store, "PAGE", 2)  # the listing takes three requests
    assert client.put("data/large", LARGE).status == 200
    for name, content in SMALL.items():
        assert client.put(f"data/{name}", content).status == 200

    def move(store: ObsStore, name: str) -> None:
        transfers.fetch(store, tmp_path, route(name, "data/", client.bucket))
        assert tree(tmp_path / name) == {"large": LARGE, **SMALL}

    at_every_request(pair, temporary, account, move)


def test_an_upload_goes_on_whenever_they_end(
    pair: tuple[str, str], temporary: Temporary, account: Account, client: Client, tmp_path: Path
) -> None:
    write(tmp_path / "out", {"large": UPLOADED, **SMALL})
    (tmp_path / "out" / "empty").mkdir()

    def move(store: ObsStore, name: str) -> None:
        transfers.send(store, tmp_path, route("out", f"{name}/", client.bucket))
        keys = client.page(f"{name}/").keys
        assert keys == sorted(f"{name}/{key}" for key in ("large", "empty/", *SMALL))
        assert client.get(f"{name}/large").content == UPLOADED

    at_every_request(pair, temporary, account, move)


def test_a_lost_end_of_an_upload_is_looked_at_with_the_renewed_ones(
    temporary: Temporary, account: Account, client: Client, tmp_path: Path
) -> None:
    """The credentials end just before the HEAD, which is refused without a reason."""
    write(tmp_path, {"large": UPLOADED})
    with FaultProxy(account.url) as proxy:
        proxy.faults.append(Fault(operation("CompleteMultipartUpload"), forwarded=True, status=500))
        transfers.send(temporary.open(proxy), tmp_path, route("large", "first", client.bucket))
        head = next(seen.number for seen in proxy.seen if seen.operation == "HeadObject")
    with FaultProxy(account.url) as proxy:
        temporary.end_before(proxy, head)
        proxy.faults.append(Fault(operation("CompleteMultipartUpload"), forwarded=True, status=500))
        transfers.send(temporary.open(proxy), tmp_path, route("large", "second", client.bucket))
        assert client.get("second").content == UPLOADED


@pytest.mark.parametrize(
    ("code", "late", "patience"),
    [
        ("ExpiredToken", 0.0, 10),
        ("InvalidAccessKeyId", 0.0, 10),
        ("ExpiredToken", LATE_SECONDS, 10),
        ("ExpiredToken", 0.0, 0),
    ],
)
def test_mox_file_goes_on_too(
    temporary: Temporary,
    account: Account,
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    late: float,
    patience: float,
) -> None:
    url = f"obs://{client.bucket}"
    file: Any = mox.file  # whose functions return None
    calls: list[Callable[[], Any]] = [
        lambda: file.exists(f"{url}/a"),
        lambda: file.read(f"{url}/a", binary=True) == b"content",
        lambda: file.stat(f"{url}/a").length == 7,
        lambda: file.get_size(f"{url}/a") == 7,
        lambda: file.list_directory(url) == ["a"],
        lambda: file.copy(f"{url}/a", str(tmp_path / uuid.uuid4().hex)) is None,
        lambda: file.copy(f"{url}/a", f"{url}/b") is None,
        lambda: file.write(f"{url}/c", "text") is None,
        lambda: file.remove(f"{url}/a") is None,
    ]
    for number, call in enumerate(calls):
        assert client.put("a", b"content").status == 200
        with FaultProxy(account.url) as proxy:
            temporary.end_before(proxy, 1, late, code)
            store = temporary.open(proxy, patience)
            with monkeypatch.context() as patched:
                patched.setattr(file_tree, "open_store", lambda environ, root, store=store: store)
                file_tree.set_auth()  # each thread opens its store again
                assert call(), number
        file_tree.set_auth()  # each thread opens its store again


def test_a_refusal_that_has_another_reason_is_not_waited_for(
    temporary: Temporary, account: Account, client: Client, tmp_path: Path
) -> None:
    assert client.put("data/a", b"x").status == 200
    with FaultProxy(account.url) as proxy:
        refused = operation("GetObject", "HeadObject")
        proxy.faults.append(Fault(refused, times=EVERY, status=403, code="AccessDenied"))
        store = temporary.open(proxy)
        with pytest.raises(TransferFailed, match="AccessDenied"):
            transfers.fetch(store, tmp_path, route("in", "data/", client.bucket))
        with pytest.raises(Refused, match="AccessDenied") as raised:
            store.find(client.bucket, "data/a")
        assert not isinstance(raised.value, Expired)


def test_credentials_that_are_never_renewed_are_waited_for_once(
    temporary: Temporary, account: Account, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, content in SMALL.items():
        assert client.put(f"data/{name}", content).status == 200
    with FaultProxy(account.url) as proxy:
        fetch = operation("GetObject")
        proxy.faults.append(Fault(fetch, times=EVERY, status=403, code="ExpiredToken"))
        access = Access(proxy.url, temporary.first)
        begun = time.monotonic()
        store = ObsStore(access, lambda: temporary.first, patience=1)
        with pytest.raises(TransferFailed, match="4 of 4 files failed"):
            transfers.fetch(store, tmp_path, route("in", "data/", client.bucket))
        assert 1 <= time.monotonic() - begun < 3
    assert [record.message for record in caplog.records].count(
        "OBS refused the credentials as expired; waiting up to 1 s for new ones"
    ) == 1


def test_a_cancelled_transfer_waits_no_longer(
    temporary: Temporary, account: Account, client: Client, tmp_path: Path
) -> None:
    assert client.put("data/a", b"x").status == 200
    for refused in ("GetObject", "ListObjects"):
        cancel = threading.Event()
        with FaultProxy(account.url) as proxy:
            proxy.faults.append(Fault(operation(refused), times=EVERY, status=403, code="ExpiredToken"))
            store = temporary.open(proxy)
            threading.Timer(0.5, cancel.set).start()
            begun = time.monotonic()
            with pytest.raises(Cancelled):
                transfers.fetch(store, tmp_path, route("in", "data/", client.bucket), cancel=cancel)
            assert time.monotonic() - begun < 3
