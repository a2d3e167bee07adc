"""Uploads in parts, when requests for the same one meet: a client that has waited too long asks again."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

import pytest

from ma_boot.desk.rehearsal.obs_server.buckets import Buckets, Refusal
from ma_boot.desk.rehearsal.obs_server.uploads import Upload, UploadPart, Uploads

CONTENT = bytes(1 << 20)
ETAG = hashlib.md5(CONTENT).hexdigest()


class Storage:
    """An empty bucket and its uploads."""

    def __init__(self, root: Path) -> None:
        buckets = Buckets(root / "buckets")
        buckets.create("bucket")
        self.bucket = buckets.get("bucket")
        self.uploads = Uploads(root / "uploads")

    def begun(self, parts: int) -> tuple[Upload, Sequence[tuple[int, str]]]:
        """An upload with all its parts, and what its completion names."""
        upload = self.uploads.initiate("bucket", "a", {}, {}, 0.0)
        for number in range(1, parts + 1):
            self.put(upload, number)
        return upload, [(number, ETAG) for number in range(1, parts + 1)]

    def put(self, upload: Upload, number: int) -> None:
        file = self.uploads.new_file()
        file.write_bytes(CONTENT)
        self.uploads.add(upload, UploadPart(number, len(CONTENT), ETAG, 0.0, str(file)))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


def at_once(*actions: Callable[[], object]) -> list[str]:
    """Does all at the same time; returns the codes of those that are refused, and empty ones of the others."""
    start = threading.Barrier(len(actions))

    def code(action: Callable[[], object]) -> str:
        start.wait()
        try:
            action()
        except Refusal as refusal:
            return refusal.code
        return ""

    with ThreadPoolExecutor(len(actions)) as pool:
        return sorted(pool.map(code, actions))


def test_of_two_completions_the_second_finds_no_upload(storage: Storage) -> None:
    for _ in range(10):
        upload, named = storage.begun(16)
        done = at_once(*[lambda: storage.uploads.complete(upload, named, storage.bucket, 0.0)] * 3)  # noqa: B023 - joined
        assert done == ["", "NoSuchUpload", "NoSuchUpload"]
        stored, file = storage.bucket.open("a")
        with file:
            assert file.read() == 16 * CONTENT
        assert stored.size == 16 << 20


def test_a_part_that_is_sent_again_meets_the_completion(storage: Storage) -> None:
    for _ in range(10):
        upload, named = storage.begun(16)
        done = at_once(
            lambda: storage.uploads.complete(upload, named, storage.bucket, 0.0),  # noqa: B023 - joined
            lambda: storage.put(upload, 1),  # noqa: B023 - joined
        )
        assert done in (["", ""], ["", "NoSuchUpload"])


def test_upload_after_the_end_of_the_server_leaves_no_file(storage: Storage, tmp_path: Path) -> None:
    upload, _ = storage.begun(1)
    storage.uploads.abort(upload)
    with pytest.raises(Refusal):
        storage.put(upload, 2)
    assert [file for file in (tmp_path / "uploads").rglob("*") if file.is_file()] == []
