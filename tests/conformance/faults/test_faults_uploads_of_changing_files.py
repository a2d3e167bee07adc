"""Files and objects that change during an upload; boto3 reads the bucket."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Callable

import pytest

from path_mapping.planning.prepare import UploadChoice
from path_mapping.stores.obs_store import ObsStore
from path_mapping.transfer.periodic import upload_periodically
from path_mapping.transfer.transfer import Transferred
from path_mapping.workers.retry import RetriedStore
from tests import transfers
from tests.conformance.clients import Account, Client
from tests.conformance.conftest import MIB, RADOSGW, store_of
from tests.functional.node import eventually
from tests.obs import Fault, FaultProxy, Seen
from tests.transfers import route, write

CHECKPOINT = b"w" * (2 * MIB)
PARTS = b"p" * (11 * MIB)
NOW, SETTLED = UploadChoice(), UploadChoice(settled=True)

pytestmark = pytest.mark.parametrize(
    "pair", [("embedded", "v4"), pytest.param(("radosgw", "v4"), marks=RADOSGW)]
)


@pytest.fixture
def store(proxy: FaultProxy, account: Account) -> ObsStore:
    return store_of(account, proxy.url, multipart_from=10 * MIB)


@pytest.fixture
def send(store: ObsStore, client: Client, tmp_path: Path) -> Callable[..., Transferred]:
    def send(choice: UploadChoice = NOW, **options: Any) -> Transferred:
        return transfers.send(store, tmp_path, route("out", "out/", client.bucket, **options), choice=choice)

    return send


def before(method: str, name: str, change: Callable[[], Any]) -> Fault:
    """Runs `change` when the first request for an object arrives."""

    def changed(seen: Seen) -> None:
        change()

    return Fault(lambda seen: seen.method == method and seen.path.endswith(name), before=changed)


def names(client: Client) -> list[str]:
    return client.page().keys


def test_a_file_that_is_rewritten_while_it_waits_is_not_sent_half(
    proxy: FaultProxy, client: Client, send: Callable[..., Transferred], tmp_path: Path
) -> None:
    write(tmp_path, {"out/a": b"first", "out/b": CHECKPOINT})
    assert send(SETTLED).files == 2
    write(tmp_path, {"out/a": b"again", "out/b": CHECKPOINT + b"!"})
    rewriting = (tmp_path / "out/b").open("r+b")

    def rewrite() -> None:
        rewriting.truncate(0)
        rewriting.write(b"half" * 1000)
        rewriting.flush()

    proxy.faults.append(before("PUT", "out/a", rewrite))
    sent = send(SETTLED)
    assert (sent.files, sent.deferred) == (1, 1)
    assert client.get("out/b").content == CHECKPOINT
    rewriting.write(b"whole")
    rewriting.close()
    assert send(SETTLED).files == 1
    assert client.get("out/b").content == b"half" * 1000 + b"whole"


@pytest.mark.parametrize("content", [b"small" * 1000, CHECKPOINT, PARTS], ids=["small", "one", "parts"])
def test_the_last_upload_sends_a_file_again_that_changed_after_it_was_sent(
    proxy: FaultProxy, client: Client, send: Callable[..., Transferred], tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "out" / "a"
    write(tmp_path, {"out/a": content[: len(content) // 2], "out/b": b"b"})
    proxy.faults.append(before("PUT", "out/b", lambda: file.write_bytes(content)))
    assert send().files == 2
    assert client.get("out/a").content == content
    assert send().skipped == 2


def test_a_file_that_changes_during_its_request_is_not_stored_torn(
    proxy: FaultProxy, client: Client, send: Callable[..., Transferred], tmp_path: Path
) -> None:
    write(tmp_path, {"out/a": b"1" * (9 * MIB)})  # one request

    def grow() -> None:
        with (tmp_path / "out/a").open("r+b") as file:
            file.write(b"2" * MIB)

    proxy.faults.append(before("PUT", "out/a", grow))
    assert send().files == 1
    assert client.get("out/a").content == (tmp_path / "out/a").read_bytes()


def test_a_round_stores_nothing_of_a_file_that_changes_during_its_request(
    proxy: FaultProxy, client: Client, send: Callable[..., Transferred], tmp_path: Path
) -> None:
    old = b"0" * (9 * MIB)
    write(tmp_path, {"out/a": old})
    assert send(SETTLED).files == 1
    write(tmp_path, {"out/a": b"1" * (9 * MIB)})  # one request, of which the proxy has read nothing yet

    def rewrite() -> None:
        with (tmp_path / "out/a").open("r+b") as file:
            file.write(b"2" * MIB)
            file.seek(8 * MIB)
            file.write(b"2" * MIB)

    proxy.faults.append(before("PUT", "out/a", rewrite))
    sent = send(SETTLED)
    assert (sent.files, sent.deferred) == (0, 1)
    assert client.get("out/a").content == old


def test_a_file_that_vanishes_before_it_is_sent_is_reported(
    proxy: FaultProxy, client: Client, send: Callable[..., Transferred], tmp_path: Path
) -> None:
    write(tmp_path, {"out/a": b"a", "out/step_1": b"1", "out/step_2": PARTS})

    def rotate() -> None:
        (tmp_path / "out/step_1").unlink()
        (tmp_path / "out/step_2").unlink()

    proxy.faults.append(before("PUT", "out/a", rotate))
    sent = send()
    assert sent.files == 1
    assert [notice.rpartition("/")[2] for notice in sent.notices] == [
        "step_1 was removed before it was uploaded",
        "step_2 was removed before it was uploaded",
    ]
    assert names(client) == ["out/a"]


@pytest.mark.parametrize("content", [b"mine!", PARTS], ids=["small", "parts"])
def test_an_object_overwritten_with_the_same_size_is_sent_again(
    client: Client, send: Callable[..., Transferred], tmp_path: Path, content: bytes
) -> None:
    write(tmp_path, {"out/a": content})
    assert send().files == 1
    assert send().skipped == 1
    assert client.put("out/a", b"x" * len(content)).status == 200
    assert send().files == 1
    assert client.get("out/a").content == content


@pytest.mark.parametrize("listed", [True, False])
def test_delete_spares_objects_of_other_clients(
    client: Client, send: Callable[..., Transferred], tmp_path: Path, listed: bool
) -> None:
    write(tmp_path, {"out/mine": b"m", "out/theirs": b"t", "out/stays": b"s"})
    assert send(delete=True).files == 3
    assert client.put("out/theirs", b"T").status == 200
    for name in ("mine", "theirs"):
        (tmp_path / "out" / name).unlink()
    again = send(UploadChoice(listed=listed), delete=True)
    assert names(client) == ["out/stays", "out/theirs"]
    assert "theirs" in again.notices[0]
    assert "changed since its upload" in again.notices[0]


def test_delete_spares_objects_stored_after_the_listing(
    proxy: FaultProxy, client: Client, send: Callable[..., Transferred], tmp_path: Path
) -> None:
    write(tmp_path, {"out/theirs": b"t"})
    assert send(delete=True).files == 1
    (tmp_path / "out/theirs").rename(tmp_path / "out/other")
    proxy.faults.append(before("PUT", "out/other", lambda: client.put("out/theirs", b"T")))
    again = send(delete=True)
    assert names(client) == ["out/other", "out/theirs"]
    assert "is not deleted" in again.notices[0]


def test_a_periodic_round_sends_a_rewritten_file_once_it_is_whole(
    proxy: FaultProxy, store: ObsStore, client: Client, tmp_path: Path
) -> None:
    write(tmp_path, {"out/a": b"a", "out/b": CHECKPOINT})
    rewriting: list[Any] = []

    def rewrite() -> None:
        rewriting.append((tmp_path / "out/b").open("wb"))
        rewriting[0].write(b"n" * MIB)
        rewriting[0].flush()

    proxy.faults.append(before("PUT", "out/a", rewrite))
    cancel = threading.Event()
    done: list[Transferred] = []
    failed: list[Exception] = []
    wanted = route("out", "out/", client.bucket, interval=1.0)
    rounds = threading.Thread(
        target=upload_periodically,
        args=([wanted], tmp_path, RetriedStore(store, cancel)),
        kwargs={"done": done.append, "failed": failed.append},
    )
    rounds.start()
    try:
        eventually(lambda: bool(done), "the first round")
        assert names(client) == ["out/a"]
        rewriting[0].write(b"n" * MIB)
        rewriting[0].close()
        eventually(lambda: names(client) == ["out/a", "out/b"], "the rewritten file")
        assert client.get("out/b").content == b"n" * (2 * MIB)
    finally:
        cancel.set()
        rounds.join()
    assert failed == []
    assert os.path.getsize(tmp_path / "out/b") == 2 * MIB
