"""Downloads with wrong bytes on their way: each size and kind of object is compared with what the server states."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Callable

import pytest

from path_mapping.errors import TransferFailed, Unreachable
from path_mapping.transfer.transfer import Transferred
from tests import transfers
from tests.conformance.clients import Account, Client, put_in_parts
from tests.conformance.conftest import MIB, ON_BOTH, store_of
from tests.obs import Fault, FaultProxy, Seen, operation
from tests.transfers import route, tree

LARGE = random.Random(13).randbytes(33 * MIB + 5)  # three ranges
SMALL = LARGE[: 12 * MIB + 3]  # one request
SECOND = f"bytes={16 * MIB}-"
CRC_HEADERS = ("x-obs-checksum-crc64ecma", "x-amz-checksum-crc64ecma")

pytestmark = ON_BOTH


@pytest.fixture
def fetch(proxy: FaultProxy, account: Account, client: Client, tmp_path: Path) -> Callable[..., Transferred]:
    store = store_of(account, proxy.url)
    return lambda **options: transfers.fetch(store, tmp_path, route("in", "data/", client.bucket, **options))


def in_one(client: Client, content: bytes) -> None:
    """Stored by one request: its ETag is its MD5."""
    assert client.put("data/file", content).status == 200


def range_of(start: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.operation == "GetObject" and seen.headers.get("range", "").startswith(start)


@pytest.mark.parametrize("parts", [0, 5 * MIB, 16 * MIB, -(-len(LARGE) // 6)])
def test_a_flipped_byte_in_a_range_is_found_and_the_file_is_read_again(
    proxy: FaultProxy, client: Client, fetch: Callable[..., Transferred], tmp_path: Path, parts: int
) -> None:
    if parts:
        put_in_parts(client, "data/file", LARGE, range(0, len(LARGE), parts))
    else:
        in_one(client, LARGE)
    proxy.faults += [
        Fault(range_of(SECOND), flip_answer=7),
        Fault(operation("HeadObject"), times=9, without=CRC_HEADERS),
    ]
    done = fetch(checksum=True)
    assert tree(tmp_path / "in") == {"file": LARGE}
    assert (done.files, done.by_length) == (1, 0)
    assert proxy.count("GetObject", "HeadObject") == 3 + 1 + 3 + 1
    again = fetch(checksum=True)
    assert (again.files, again.skipped) == (0, 1)


def test_the_crc_of_the_ranges_is_compared_with_that_of_the_object(
    proxy: FaultProxy,
    client: Client,
    fetch: Callable[..., Transferred],
    tmp_path: Path,
    pair: tuple[str, str],
) -> None:
    put_in_parts(client, "data/file", LARGE, [0, 5 * MIB, 23 * MIB])  # the ETag tells nothing
    proxy.faults.append(Fault(range_of(SECOND), flip_answer=7))
    done = fetch()
    assert tree(tmp_path / "in") == {"file": LARGE}
    assert done.by_length == (0 if pair[0] == "embedded" else 1)  # radosgw has no CRC-64


def test_a_file_that_is_always_wrong_fails_and_is_not_taken_for_a_whole_one(
    proxy: FaultProxy, client: Client, fetch: Callable[..., Transferred], tmp_path: Path
) -> None:
    in_one(client, LARGE)
    proxy.faults.append(Fault(range_of(SECOND), times=2, flip_answer=7))
    with pytest.raises(TransferFailed) as raised:
        fetch()
    assert isinstance(raised.value.failures[0].error, Unreachable)
    assert tree(tmp_path) == {}
    done = fetch()
    assert (done.files, done.skipped) == (1, 0)
    assert tree(tmp_path / "in") == {"file": LARGE}


def test_parts_of_unusual_sizes_are_read_until_two_readings_agree(
    proxy: FaultProxy, client: Client, fetch: Callable[..., Transferred], tmp_path: Path
) -> None:
    put_in_parts(client, "data/file", LARGE, [0, 5 * MIB, 23 * MIB])
    proxy.faults += [
        Fault(range_of(SECOND), flip_answer=7),
        Fault(operation("HeadObject"), times=9, without=CRC_HEADERS),
    ]
    done = fetch(checksum=True)
    assert tree(tmp_path / "in") == {"file": LARGE}
    assert (done.files, done.by_length, proxy.count("HeadObject")) == (1, 1, 3)


@pytest.mark.parametrize("cuts", [[0, 5 * MIB, 10 * MIB], [0, 5 * MIB, 11 * MIB]])
def test_a_small_object_of_parts_is_compared_too(
    proxy: FaultProxy,
    client: Client,
    fetch: Callable[..., Transferred],
    tmp_path: Path,
    cuts: list[int],
) -> None:
    put_in_parts(client, "data/file", SMALL, cuts)
    usual = cuts[2] == 10 * MIB
    proxy.faults += [
        Fault(operation("GetObject"), flip_answer=9 * MIB, without=CRC_HEADERS),
        Fault(operation("GetObject"), times=9, without=CRC_HEADERS),
    ]
    done = fetch()
    assert tree(tmp_path / "in") == {"file": SMALL}
    assert (done.by_length, proxy.count("GetObject")) == ((0, 2) if usual else (1, 3))
    assert proxy.count("HeadObject") == 0


def test_files_without_a_checksum_are_counted(
    proxy: FaultProxy, client: Client, fetch: Callable[..., Transferred], tmp_path: Path
) -> None:
    encrypted = {"x-amz-server-side-encryption": "aws:kms"}
    in_one(client, LARGE)
    assert client.put("data/small", b"x").status == 200
    proxy.faults.append(
        Fault(operation("GetObject", "HeadObject"), times=9, without=CRC_HEADERS, with_headers=encrypted)
    )
    done = fetch()
    assert (done.files, done.by_length) == (2, 2)
    assert tree(tmp_path / "in") == {"file": LARGE, "small": b"x"}
