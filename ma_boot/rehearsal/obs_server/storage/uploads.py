"""Uploads in parts that are not complete yet. They end with the server: a later one does not know them."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import uuid
from pathlib import Path
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from ma_boot.rehearsal.obs_server.storage.buckets import Bucket
from ma_boot.rehearsal.obs_server.storage.objects import Part, Stored, Upload
from ma_boot.rehearsal.obs_server.storage.refusals import Refusal
from path_mapping.localfs import chunks, crc64

MIN_PART = 100 << 10  # OBS API reference, "Uploading Parts": the last one may be smaller
MAX_PARTS = 10_000


class Uploads:
    """All uploads of a server, their parts below one directory; any thread may ask at any time."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._uploads: Dict[str, Upload] = {}
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)

    def begin(
        self, bucket: str, key: str, headers: Mapping[str, str], metadata: Mapping[str, str], now: float
    ) -> Upload:
        """Begins an upload."""
        upload = Upload(uuid.uuid4().hex, bucket, key, now, headers, metadata)
        (self._root / upload.id).mkdir()
        with self._lock:
            self._uploads[upload.id] = upload
        return upload

    def get(self, bucket: str, key: str, upload_id: str) -> Upload:
        """The upload of this id, if it is one for this key; raises `Refusal`."""
        found = self._uploads.get(upload_id)
        if found is None or (found.bucket, found.key) != (bucket, key):
            raise Refusal("NoSuchUpload", "the upload does not exist, or was completed or aborted")
        return found

    def new_file(self, upload: Upload) -> Path:
        """Where the next part's content may be written."""
        return self._root / upload.id / uuid.uuid4().hex

    def add(self, upload: Upload, part: Part) -> None:
        """Adds a part that is written, in the place of an earlier one with its number."""
        with self._lock:
            self.get(upload.bucket, upload.key, upload.id)  # it may have been aborted meanwhile
            earlier = upload.parts.get(part.number)
            upload.parts[part.number] = part
        if earlier is not None:
            os.unlink(earlier.path)

    def of(self, bucket: str) -> List[Upload]:
        """The uploads of a bucket in the order of keys, and then of their begin."""
        with self._lock:
            found = [upload for upload in self._uploads.values() if upload.bucket == bucket]
        return sorted(found, key=lambda upload: (upload.key, upload.begun, upload.id))

    def complete(
        self, upload: Upload, wanted: Sequence[Tuple[int, str]], bucket: Bucket, now: float
    ) -> Stored:
        """Makes the wanted parts, as pairs of number and ETag, the object; raises `Refusal`."""
        parts = _chosen(upload, wanted)
        path = bucket.new_file()
        size, crc = _join(parts, path)
        md5s = b"".join(bytes.fromhex(part.etag) for part in parts)
        etag = f"{hashlib.md5(md5s).hexdigest()}-{len(parts)}"
        stored = Stored(
            upload.key,
            size,
            etag,
            crc,
            now,
            upload.headers,
            upload.metadata,
            appendable=False,
            path=str(path),
        )
        bucket.keep(stored)
        self.abort(upload)
        return stored

    def abort(self, upload: Upload) -> None:
        """Forgets an upload and its parts."""
        with self._lock:
            self._uploads.pop(upload.id, None)
        shutil.rmtree(self._root / upload.id, ignore_errors=True)


def _chosen(upload: Upload, wanted: Sequence[Tuple[int, str]]) -> List[Part]:
    numbers = [number for number, _ in wanted]
    if not numbers:
        raise Refusal("MalformedXML", "no parts are named")
    if any(later <= earlier for earlier, later in zip(numbers, numbers[1:])):
        raise Refusal("InvalidPartOrder", "the parts' numbers do not grow")
    parts = []
    for number, etag in wanted:
        part = upload.parts.get(number)
        if part is None or part.etag != etag.strip('"').lower():
            raise Refusal("InvalidPart", f"there is no part {number} with this ETag")
        parts.append(part)
    if any(part.size < MIN_PART for part in parts[:-1]):
        raise Refusal("EntityTooSmall", f"a part that is not the last one has fewer than {MIN_PART} bytes")
    return parts


def _join(parts: Iterable[Part], path: Path) -> Tuple[int, int]:
    """Writes the parts into one file; its size and checksum."""
    crc = 0
    with path.open("wb", buffering=0) as target:
        for part in parts:
            for piece in chunks(Path(part.path)):
                crc = crc64(piece, crc)
                target.write(piece)
        return target.tell(), crc
