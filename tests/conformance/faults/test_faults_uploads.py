"""Uploads through a proxy that breaks them, to radosgw."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from path_mapping.errors import Cancelled
from path_mapping.transfer.scheduler import Progress
from path_mapping.transfer.transfer import Transferred
from path_mapping.workers.retry import RetryPolicy, Trouble
from tests import transfers
from tests.conformance.conftest import MIB, RADOSGW
from tests.conformance.faults.conftest import Bucket
from tests.obs import Fault, Seen, operation

pytestmark = RADOSGW

LARGE = bytes(range(256)) * (52 << 10)  # 13 MiB: three parts
OTHER = LARGE[::-1] + b"more"


def node(base: Path, content: bytes) -> Path:
    """A node's directory, with an output of one large file."""
    transfers.write(base / "out", {"large": content})
    return base


def send(bucket: Bucket, base: Path, **more: Any) -> Transferred:
    return transfers.send(bucket.store(), base, transfers.route("out", "out/", bucket.name), **more)


def stopped(bucket: Bucket, base: Path) -> None:
    """An upload that is given up after its first part, as by a kill: its multipart upload stays."""
    cancel = threading.Event()

    def stop(progress: Progress) -> None:
        if progress.bytes_done > 6 * MIB:
            cancel.set()

    with pytest.raises(Cancelled):
        send(bucket, base, cancel=cancel, progress=stop)


class TestUnfinishedUploads:
    """Of another process or node, and of an earlier run."""

    def test_a_foreign_upload_is_left_alone(self, bucket: Bucket, tmp_path: Path) -> None:
        foreign = bucket.witness.create_upload("out/large")
        bucket.witness.put_part("out/large", foreign, 1, LARGE[: 5 * MIB])
        assert send(bucket, node(tmp_path, LARGE)).files == 1
        assert bucket.witness.uploads() == [("out/large", foreign)]
        assert bucket.proxy.count("UploadPart") == 3
        assert bucket.witness.get("out/large").content == LARGE

    def test_ones_own_upload_is_resumed(self, bucket: Bucket, tmp_path: Path) -> None:
        stopped(bucket, node(tmp_path, LARGE))
        assert len(bucket.witness.uploads()) == 1
        stored = len(bucket.witness.parts("out/large", bucket.witness.uploads()[0][1]))
        bucket.proxy.seen.clear()
        send(bucket, tmp_path)
        assert bucket.proxy.count("UploadPart") == 3 - stored < 3
        assert bucket.witness.get("out/large").content == LARGE
        assert bucket.witness.uploads() == []
        assert sorted(path.name for path in tmp_path.iterdir()) == [".out.ma_sync", "out"]


class TestTheEndOfAMultipartUpload:
    """`CompleteMultipartUpload`, whose outcome may be unknown."""

    @pytest.mark.parametrize(
        "how",
        [
            {"status": 500},
            {"status": 503, "code": "SlowDown"},
            {"status": 408, "code": "RequestTimeout"},
            {"reset": True},
            {"stall": True},
            {"status": 200},
            {"status": 500, "forwarded": True},
            {"status": 200, "forwarded": True},
            {"reset": True, "forwarded": True},
            {"stall": True, "forwarded": True},
            {"status": 404, "code": "NoSuchUpload"},
            {"status": 404, "code": "NoSuchUpload", "forwarded": True},
        ],
        ids=lambda how: "-".join(map(str, how.values())),
    )
    def test_a_doubtful_end_ends_well(self, bucket: Bucket, tmp_path: Path, how: dict[str, Any]) -> None:
        fault = Fault(operation("CompleteMultipartUpload"), **how)
        bucket.proxy.faults.append(fault)
        assert send(bucket, node(tmp_path, LARGE)).files == 1
        assert fault.times == 0
        assert bucket.witness.get("out/large").content == LARGE
        assert bucket.proxy.count("UploadPart") == (
            6 if how.get("status") == 404 and "forwarded" not in how else 3
        )

    def test_an_object_of_the_same_content_is_not_the_end(self, bucket: Bucket, tmp_path: Path) -> None:
        """Another node has stored the same; the upload whose end was refused must not stay for ever."""
        first, second = node(tmp_path / "0", LARGE), node(tmp_path / "1", LARGE)

        def overtake(seen: Seen) -> None:
            send(bucket, second)

        fault = Fault(operation("CompleteMultipartUpload"), before=overtake, status=503)
        bucket.proxy.faults.append(fault)
        assert send(bucket, first).files == 1
        assert bucket.witness.get("out/large").content == LARGE
        assert bucket.witness.uploads() == []


class TestLeftovers:
    """Multipart uploads that a killed run left."""

    @pytest.mark.parametrize("now", [b"small", None])
    def test_the_upload_of_a_file_that_is_small_or_gone_now_is_aborted(
        self, bucket: Bucket, tmp_path: Path, now: Any
    ) -> None:
        stopped(bucket, node(tmp_path, LARGE))
        foreign = bucket.witness.create_upload("out/large")
        (tmp_path / "out" / "large").unlink()
        transfers.write(tmp_path / "out", {"large": now} if now else {"else": b"x"})
        done = send(bucket, tmp_path)
        assert [notice for notice in done.notices if "out/large by an earlier run was aborted" in notice]
        assert bucket.witness.uploads() == [("out/large", foreign)]


@pytest.mark.parametrize("files", [1, 3])
def test_a_store_that_is_away_for_longer_than_five_attempts(
    bucket: Bucket, tmp_path: Path, files: int
) -> None:
    """Refusals of every request, from the listing on, for 6 seconds; five attempts take 4.5 at most."""
    back = time.monotonic() + 6
    bucket.proxy.faults.append(Fault(lambda seen: time.monotonic() < back, times=10_000, status=500))
    transfers.write(tmp_path / "out", {str(number): b"%d" % number for number in range(files)})
    troubles: list[Trouble] = []
    deadline = time.monotonic() + 60
    done = send(bucket, tmp_path, patience=RetryPolicy(math.inf, deadline), troubled=troubles.append)
    assert done.files == files
    assert time.monotonic() > back
    assert {trouble.until for trouble in troubles} == {deadline}
    assert [bucket.witness.get(f"out/{number}").content for number in range(files)] == [
        b"%d" % number for number in range(files)
    ]
