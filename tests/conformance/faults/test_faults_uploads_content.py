"""Checks of uploaded content: bodies that change on their way, and objects whose ETag is not an MD5."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from path_mapping.errors import Corrupted, Expired, TransferFailed
from path_mapping.planning.prepare import UploadChoice
from path_mapping.transfer.transfer import Transferred
from path_mapping.workers.retry import RetryPolicy
from tests import transfers
from tests.conformance.clients import Account
from tests.conformance.conftest import RADOSGW
from tests.conformance.faults.conftest import Bucket
from tests.obs import Fault, FaultProxy, Seen, operation

pytestmark = RADOSGW

LARGE = bytes(range(256)) * (52 << 10)  # 13 MiB: three parts
OPAQUE = {"ETag": '"opaque"'}
FILES = {"empty": b"", "small": b"content", "large": LARGE}


@pytest.fixture
def encrypted(radosgw_account: Account) -> Iterator[Bucket]:
    """A bucket whose objects look encrypted."""
    with FaultProxy(radosgw_account.url, encrypted=True) as proxy:
        yield Bucket(radosgw_account, proxy)


def send(bucket: Bucket, base: Path, checksum: bool = False, **more: Any) -> Transferred:
    """Uploads `out`."""
    route = transfers.route("out", "out/", bucket.name, checksum=checksum)
    return transfers.send(bucket.store(), base, route, **more)


def flipped(times: int) -> Fault:
    return Fault(operation("PutObject"), times=times, flip_request=3)


class TestABodyThatIsAlwaysWrong:
    """Bytes that change on the way to OBS at each attempt."""

    def test_is_deleted_and_reported(self, bucket: Bucket, tmp_path: Path) -> None:
        transfers.write(tmp_path / "out", {"good": b"good", "wrong": b"content"})
        wrong = Fault(
            lambda seen: seen.operation == "PutObject" and "wrong" in seen.path, times=5, flip_request=3
        )
        bucket.proxy.faults.append(wrong)
        with pytest.raises(TransferFailed) as raised:
            send(bucket, tmp_path)
        (failure,) = raised.value.failures
        assert isinstance(failure.error, Corrupted)
        assert "MD5" in str(failure)
        assert str(failure).endswith("the wrong object was deleted")
        assert bucket.witness.page().keys == ["out/good"]
        assert send(bucket, tmp_path).files == 1
        assert bucket.witness.get("out/wrong").content == b"content"

    def test_is_not_deleted_after_another_client_has_replaced_it(
        self, bucket: Bucket, tmp_path: Path
    ) -> None:
        def replace(seen: Seen) -> None:
            bucket.witness.put("out/wrong", b"theirs")

        bucket.proxy.faults += [flipped(5), Fault(operation("HeadObject"), before=replace)]
        transfers.write(tmp_path / "out", {"wrong": b"content"})
        with pytest.raises(TransferFailed, match="another client has replaced"):
            send(bucket, tmp_path)
        assert bucket.witness.get("out/wrong").content == b"theirs"

    @pytest.mark.parametrize("what", ["HeadObject", "DeleteObject"])
    def test_is_named_when_it_cannot_be_deleted(self, bucket: Bucket, tmp_path: Path, what: str) -> None:
        refused = Fault(operation(what, "GetObject"), times=9, status=403, code="AccessDenied")
        bucket.proxy.faults += [flipped(5), refused]
        transfers.write(tmp_path / "out", {"wrong": b"content"})
        with pytest.raises(TransferFailed, match=r"out/wrong.*the object in OBS is wrong") as raised:
            send(bucket, tmp_path)
        assert "AccessDenied" in str(raised.value)
        assert bucket.witness.page().keys == ["out/wrong"]

    def test_is_named_when_the_last_attempts_fail_otherwise(self, bucket: Bucket, tmp_path: Path) -> None:
        bucket.proxy.faults += [flipped(1), Fault(operation("PutObject"), times=4, status=500)]
        transfers.write(tmp_path / "out", {"wrong": b"content"})
        with pytest.raises(TransferFailed, match=r"HTTP 500.*the wrong object was deleted"):
            send(bucket, tmp_path)
        assert bucket.witness.page().keys == []

    def test_is_deleted_when_its_file_is_removed_meanwhile(self, bucket: Bucket, tmp_path: Path) -> None:
        def rotate(seen: Seen) -> None:
            (tmp_path / "out" / "wrong").unlink()

        bucket.proxy.faults.append(Fault(operation("PutObject"), before=rotate, flip_request=3))
        transfers.write(tmp_path / "out", {"wrong": b"content"})
        done = send(bucket, tmp_path)
        assert "wrong was removed before it was uploaded" in done.notices[0]
        assert bucket.witness.page().keys == []

    def test_is_named_when_its_file_is_removed_and_it_cannot_be_deleted(
        self, bucket: Bucket, tmp_path: Path
    ) -> None:
        def rotate(seen: Seen) -> None:
            (tmp_path / "out" / "wrong").unlink()

        bucket.proxy.faults += [
            Fault(operation("PutObject"), before=rotate, flip_request=3),
            Fault(operation("DeleteObject"), status=403, code="AccessDenied"),
        ]
        transfers.write(tmp_path / "out", {"wrong": b"content"})
        with pytest.raises(TransferFailed, match="the object in OBS is wrong"):
            send(bucket, tmp_path)

    def test_does_not_hide_that_the_credentials_have_ended(self, bucket: Bucket, tmp_path: Path) -> None:
        ended = Fault(operation("PutObject"), times=9, status=403, code="InvalidAccessKeyId")
        bucket.proxy.faults += [flipped(1), ended]
        transfers.write(tmp_path / "out", {"wrong": b"content"})
        with pytest.raises(TransferFailed) as raised:
            send(bucket, tmp_path)
        assert isinstance(raised.value.failures[0].error, Expired)
        assert bucket.witness.page().keys == []

    def test_is_not_taken_for_sent_by_a_run_that_lists_nothing(self, bucket: Bucket, tmp_path: Path) -> None:
        transfers.write(tmp_path / "out", {"wrong": b"content"})
        assert send(bucket, tmp_path).files == 1
        bucket.witness.put("out/wrong", b"theirs!")
        bucket.proxy.faults.append(flipped(5))
        with pytest.raises(TransferFailed):
            send(bucket, tmp_path)
        assert send(bucket, tmp_path, choice=UploadChoice(listed=False)).files == 1
        assert bucket.witness.get("out/wrong").content == b"content"

    def test_is_refused_by_the_server_with_checksum(self, bucket: Bucket, tmp_path: Path) -> None:
        bucket.proxy.faults.append(flipped(99))
        transfers.write(tmp_path / "out", {"wrong": b"content"})
        with pytest.raises(TransferFailed, match="BadDigest"):
            send(bucket, tmp_path, checksum=True, patience=RetryPolicy(600))
        assert bucket.proxy.count("PutObject") == 5
        assert bucket.witness.page().keys == []


class TestAnEarlyAnswer:
    """An answer of something between here and OBS, before the body was read."""

    @pytest.mark.parametrize(
        "headers", [{}, {"ETag": f'"{"0" * 32}"'}, OPAQUE], ids=["no", "another", "opaque"]
    )
    def test_to_a_small_file_is_not_taken_for_one_of_obs(
        self, bucket: Bucket, tmp_path: Path, headers: dict[str, str]
    ) -> None:
        fault = Fault(operation("PutObject"), early=True, status=200, body=b"", with_headers=headers)
        bucket.proxy.faults.append(fault)
        transfers.write(tmp_path / "out", {"small": b"content"})
        assert send(bucket, tmp_path).files == 1
        assert fault.times == 0
        assert bucket.witness.get("out/small").content == b"content"

    def test_about_an_object_that_is_there_already(self, bucket: Bucket, tmp_path: Path) -> None:
        bucket.witness.put("out/small", b"earlier")
        fault = Fault(operation("PutObject"), early=True, status=200, body=b"", with_headers=OPAQUE)
        bucket.proxy.faults.append(fault)
        transfers.write(tmp_path / "out", {"small": b"content"})
        assert send(bucket, tmp_path).files == 1
        assert bucket.witness.get("out/small").content == b"content"

    def test_to_a_part(self, bucket: Bucket, tmp_path: Path) -> None:
        fault = Fault(operation("UploadPart"), early=True, status=200, body=b"", with_headers=OPAQUE)
        bucket.proxy.faults.append(fault)
        transfers.write(tmp_path / "out", {"large": LARGE})
        assert send(bucket, tmp_path).files == 1
        assert fault.times == 0
        assert bucket.witness.get("out/large").content == LARGE
        assert bucket.witness.uploads() == []


class TestAnEncryptedBucket:
    """Its ETags are no MD5s, so nothing tells the content."""

    def test_files_compared_by_length_only_are_counted(self, encrypted: Bucket, tmp_path: Path) -> None:
        transfers.write(tmp_path / "out", FILES)
        done = send(encrypted, tmp_path)
        assert (done.files, done.by_length) == (3, 3)
        assert {name: encrypted.witness.get(f"out/{name}").content for name in FILES} == FILES
        asked = [seen.path.rpartition("/")[2] for seen in encrypted.proxy.seen if seen.method == "HEAD"]
        assert [asked.count(name) for name in ("empty", "small")] == [1, 1]

    def test_no_part_is_sent_again(self, encrypted: Bucket, tmp_path: Path) -> None:
        transfers.write(tmp_path / "out", FILES)
        send(encrypted, tmp_path)
        again = send(encrypted, tmp_path)
        assert (again.files, again.skipped) == (0, 3)

    @pytest.mark.parametrize("how", [{"status": 200}, {"status": 500}])
    def test_no_part_is_sent_again_after_a_doubtful_end(
        self, encrypted: Bucket, tmp_path: Path, how: dict[str, Any]
    ) -> None:
        fault = Fault(operation("CompleteMultipartUpload"), **how, forwarded=True)
        encrypted.proxy.faults.append(fault)
        transfers.write(tmp_path / "out", {"large": LARGE})
        assert send(encrypted, tmp_path).files == 1
        assert fault.times == 0
        assert encrypted.witness.get("out/large").content == LARGE
        assert send(encrypted, tmp_path).skipped == 1

    def test_with_checksum_the_server_compares(self, encrypted: Bucket, tmp_path: Path) -> None:
        encrypted.proxy.faults += [
            Fault(lambda seen: seen.method == "PUT" and "small" in seen.path, flip_request=3),
            Fault(operation("UploadPart"), flip_request=3),
        ]
        transfers.write(tmp_path / "out", FILES)
        done = send(encrypted, tmp_path, checksum=True)
        assert (done.files, done.by_length, done.retries) == (3, 0, 2)
        assert {name: encrypted.witness.get(f"out/{name}").content for name in FILES} == FILES

    def test_a_length_that_differs_is_found(self, encrypted: Bucket, tmp_path: Path) -> None:
        """Another client overwrites it at once: the last upload wins, which is this one."""

        def replace(seen: Seen) -> None:
            encrypted.witness.put("out/small", b"theirs is longer")

        encrypted.proxy.faults.append(Fault(operation("HeadObject"), before=replace))
        transfers.write(tmp_path / "out", {"small": b"content"})
        done = send(encrypted, tmp_path)
        assert (done.files, done.retries) == (1, 1)
        assert encrypted.witness.get("out/small").content == b"content"

    def test_keys_that_may_only_write_still_may(self, encrypted: Bucket, tmp_path: Path) -> None:
        refused = Fault(operation("HeadObject", "GetObject"), times=9, status=403, code="AccessDenied")
        encrypted.proxy.faults.append(refused)
        transfers.write(tmp_path / "out", {"small": b"content"})
        done = send(encrypted, tmp_path)
        assert (done.files, done.by_length) == (1, 1)


def test_compared_files_are_not_counted(bucket: Bucket, tmp_path: Path) -> None:
    transfers.write(tmp_path / "out", {"small": b"content", "large": LARGE})
    done = send(bucket, tmp_path)
    assert (done.files, done.by_length) == (2, 0)
    assert not [seen for seen in bucket.proxy.seen if seen.method == "HEAD" and "small" in seen.path]
