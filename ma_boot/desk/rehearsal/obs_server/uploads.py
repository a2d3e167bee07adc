"""Multipart uploads: the files of their parts, and the objects that they become."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ma_boot.desk.rehearsal.obs_server.buckets import Bucket, BucketObject, Refusal, join

MIN_PART_BYTES = 100 << 10  # OBS API reference, "Uploading Parts": only the last part may be smaller
MAX_PARTS = 10_000


@dataclass(frozen=True)
class UploadPart:
    """One part of an upload: `path` is the file of its content, `etag` the MD5 of it."""

    number: int
    size: int
    etag: str
    modified: float
    path: str


@dataclass(frozen=True)
class Upload:
    """A multipart upload; `headers` and `metadata` are for the object that it becomes.

    A request that ends it, or adds a part to it, holds `changing`.
    """

    id: str
    bucket: str
    key: str
    initiated: float
    headers: Mapping[str, str]
    metadata: Mapping[str, str]
    parts: dict[int, UploadPart] = field(default_factory=dict)
    changing: threading.Lock = field(default_factory=threading.Lock, compare=False)


class Uploads:
    """All uploads of a server, with the files of their parts in one directory. Thread-safe.

    A client that has waited too long asks again while its first request is still being answered. So what
    ends an upload, or adds a part to it, waits for the others, and a late one is refused: `NoSuchUpload`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._uploads: dict[str, Upload] = {}
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)

    def initiate(
        self, bucket: str, key: str, headers: Mapping[str, str], metadata: Mapping[str, str], now: float
    ) -> Upload:
        """Starts an upload."""
        upload = Upload(uuid.uuid4().hex, bucket, key, initiated=now, headers=headers, metadata=metadata)
        with self._lock:
            self._uploads[upload.id] = upload
        return upload

    def get(self, bucket: str, key: str, upload_id: str) -> Upload:
        """The upload of this key with this ID; raises `Refusal` if there is none."""
        upload = self._uploads.get(upload_id)
        if upload is None or (upload.bucket, upload.key) != (bucket, key):
            raise Refusal("NoSuchUpload", "the upload does not exist, or was completed or aborted")
        return upload

    def new_file(self) -> Path:
        """A new file for the content of a part."""
        return self._root / uuid.uuid4().hex

    def add(self, upload: Upload, part: UploadPart) -> None:
        """Adds a part or replaces it; raises `Refusal` and deletes its file if the upload has ended."""
        try:
            with self._change(upload):
                earlier = upload.parts.get(part.number)
                upload.parts[part.number] = part
        except Refusal:
            os.unlink(part.path)
            raise
        if earlier is not None:
            os.unlink(earlier.path)

    def of(self, bucket: str) -> list[Upload]:
        """The uploads of a bucket, sorted by key and time of initiation."""
        with self._lock:
            uploads = [upload for upload in self._uploads.values() if upload.bucket == bucket]
        return sorted(uploads, key=lambda upload: (upload.key, upload.initiated, upload.id))

    def complete(
        self, upload: Upload, wanted: Sequence[tuple[int, str]], bucket: Bucket, now: float
    ) -> BucketObject:
        """Assembles the object from the wanted parts, which are pairs of number and ETag.

        Raises `Refusal` if a part is missing, too small or out of order.
        """
        with self._change(upload):
            parts = _chosen(upload, wanted)
            path = bucket.new_file()
            size, crc = join([part.path for part in parts], path)
            md5s = b"".join(bytes.fromhex(part.etag) for part in parts)
            completed = BucketObject(
                upload.key,
                size,
                f"{hashlib.md5(md5s).hexdigest()}-{len(parts)}",
                crc64=crc,
                modified=now,
                headers=upload.headers,
                metadata=upload.metadata,
                path=str(path),
            )
            bucket.put(completed)
            self._forget(upload)
        return completed

    def abort(self, upload: Upload) -> None:
        """Forgets an upload and deletes its parts; raises `Refusal` if it has ended meanwhile."""
        with self._change(upload):
            self._forget(upload)

    @contextmanager
    def _change(self, upload: Upload) -> Iterator[None]:
        """For one at a time; raises `Refusal` if the upload has ended."""
        with upload.changing:
            self.get(upload.bucket, upload.key, upload.id)
            yield

    def _forget(self, upload: Upload) -> None:
        with self._lock:
            del self._uploads[upload.id]
        for part in upload.parts.values():
            os.unlink(part.path)


def _chosen(upload: Upload, wanted: Sequence[tuple[int, str]]) -> list[UploadPart]:
    numbers = [number for number, _ in wanted]
    if not numbers:
        raise Refusal("MalformedXML", "expected at least one part")
    if any(later <= earlier for earlier, later in zip(numbers, numbers[1:])):
        raise Refusal("InvalidPartOrder", "the part numbers are not in ascending order")
    parts = []
    for number, etag in wanted:
        part = upload.parts.get(number)
        if part is None or part.etag != etag.strip('"').lower():
            raise Refusal("InvalidPart", f"there is no part {number} with this ETag")
        parts.append(part)
    if any(part.size < MIN_PART_BYTES for part in parts[:-1]):
        raise Refusal("EntityTooSmall", f"only the last part may have fewer than {MIN_PART_BYTES} bytes")
    return parts
