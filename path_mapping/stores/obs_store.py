"""OBS as a store, through Huawei's SDK (`obs_sdk`)."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Callable, Generator, Iterator, Optional, Tuple

from obs import (
    CompleteMultipartUploadRequest,
    CompletePart,
    GetObjectHeader,
    ListMultipartUploadsRequest,
    PutObjectHeader,
)

from path_mapping.errors import NotFound, Refused, StoreError, Unreachable
from path_mapping.localfs import CHUNK, Section, new_md5
from path_mapping.stores.obs_sdk import ObsSdk
from path_mapping.stores.store import (
    Access,
    Credentials,
    FileStore,
    MultipartStore,
    Pause,
    SignedAccess,
    StoredObject,
    UnfinishedUpload,
)
from path_mapping.stores.units import MultipartUpload
from path_mapping.wire import ObjectState, base64_of_md5, compare, etag_of_parts, md5_of_etag, object_state

PAGE = 1000  # entries in one answer, the most that OBS returns (API reference, "Listing Objects in a Bucket")
LARGEST_COPY = 5 << 30  # bytes that OBS copies in one request (API reference, "Copying Objects")


class ObsStore(FileStore, SignedAccess, MultipartStore):
    """Objects in OBS, or in a service with its interface; create it after a fork. See `ObsSdk`."""

    def __init__(
        self,
        access: Access,
        renew: Optional[Callable[[], Credentials]] = None,
        proxy: Optional[str] = None,
        patience: float = 0.0,
    ) -> None:
        self.sdk = ObsSdk(access, renew, proxy, patience)

    def __repr__(self) -> str:
        return f"ObsStore({self.sdk.access.endpoint!r})"

    def access(self) -> Optional[Access]:
        return None if self.sdk.proxy else self.sdk.access

    def renewed(self, used: Credentials, pause: Optional[Pause] = None) -> bool:
        return self.sdk.renewed(used, pause)

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """See `Store.list`.

        A full page is never taken for the last one, because a missing IsTruncated reads as False in the SDK.
        Keys that do not ascend are an error: they would page forever.
        """
        doing, marker = f"listing obs://{bucket}/{prefix}", ""
        while True:
            body = self._page(doing, bucket, prefix, marker)
            for entry in body.contents:
                if entry.key is None or entry.size is None:
                    raise Unreachable(f"{doing}: an object without a key or a size")
                if marker and entry.key <= marker:
                    raise Unreachable(f"{doing}: {entry.key!r} came after {marker!r}")
                marker = entry.key
                md5 = None if entry.isAppendable else md5_of_etag(entry.etag)
                yield StoredObject(entry.key, int(entry.size), md5, entry.etag or "")
            if not body.contents or not (body.is_truncated or len(body.contents) >= PAGE):
                return

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        doing, marker = f"listing obs://{bucket}/{prefix}", ""
        while True:
            body = self._page(doing, bucket, prefix, marker, delimiter="/")
            found = [StoredObject(one.key, int(one.size), None, one.etag or "") for one in body.contents]
            found += [StoredObject(one.prefix, 0, None) for one in body.commonPrefixs or ()]
            found = sorted((one for one in found if one.key > marker), key=lambda one: one.key)
            yield from (one for one in found if one.key != prefix)
            if not found or not (body.is_truncated or len(found) >= PAGE):
                return
            marker = found[-1].key

    def _page(self, doing: str, bucket: str, prefix: str, marker: str, **settings: str) -> Any:
        return self.sdk.call(
            doing,
            lambda sdk: sdk.listObjects(
                bucket, prefix=prefix or None, marker=marker or None, max_keys=PAGE, encoding_type="url",
                **settings,
            ),
            "contents", "name",
        ).body  # fmt: skip

    def find(self, bucket: str, key: str) -> Optional[ObjectState]:
        try:
            body = self._metadata(f"looking up obs://{bucket}/{key}", bucket, key, "contentLength")
        except NotFound:
            return None
        return object_state(body)

    def _metadata(self, doing: str, bucket: str, key: str, field: str) -> Any:
        return self.sdk.call(doing, lambda sdk: _head(sdk, bucket, key), field).body

    def read(self, bucket: str, key: str) -> Generator[bytes, None, bool]:
        doing, digest = f"reading obs://{bucket}/{key}", new_md5()
        answer = self._content(doing, bucket, key)
        with closing(self._pieces(doing, answer)) as pieces:
            for piece in pieces:
                digest.update(piece)
                yield piece
        return compare(doing, answer, digest.hexdigest())

    def read_from(self, bucket: str, key: str, offset: int, version: str = "") -> Iterator[bytes]:
        """See `FileStore.read_from`. The start is skipped here if the server ignores ranges."""
        doing = f"reading obs://{bucket}/{key}" + (f" from {offset}" if offset else "")
        plain = version.strip('"') or None  # the SDK would send quotes as %22
        wanted = GetObjectHeader(range=f"{offset}-" if offset else None, if_match=plain)
        answer = self._content(doing, bucket, key, headers=wanted)
        left, skipped = answer.body.contentLength, 0 if answer.status == 206 else offset
        with closing(self._pieces(doing, answer)) as pieces:
            for piece in pieces:
                left = None if left is None else int(left) - len(piece)
                yield piece[skipped:]
                skipped = max(0, skipped - len(piece))
        if left:
            raise Unreachable(f"{doing}: the response ended {left} bytes early")

    def _content(self, doing: str, bucket: str, key: str, **settings: Any) -> Any:
        return self.sdk.call(
            doing, lambda sdk: sdk.getObject(bucket, key, loadStreamInMemory=False, **settings), "response"
        )

    def _pieces(self, doing: str, answer: Any) -> Generator[bytes, None, None]:
        response = answer.body.response
        try:
            while True:
                piece = self.sdk.guarded(doing, lambda: response.read(CHUNK))
                if not piece:
                    return
                yield piece
        finally:
            response.close()

    def copy(self, bucket: str, key: str, to_bucket: str, to_key: str) -> None:
        """See `FileStore.copy`. An object of more than 5 GiB is refused."""
        doing = f"copying obs://{bucket}/{key} to obs://{to_bucket}/{to_key}"
        found = self.find(bucket, key)
        if found is None:
            raise NotFound(f"{doing}: no such object")
        if found.size > LARGEST_COPY:
            raise Refused(
                f"{doing}: found {found.size} bytes, expected at most 5 GiB: copy it via a local file"
            )
        self.sdk.call(doing, lambda sdk: sdk.copyObject(bucket, key, to_bucket, to_key), "etag")

    def delete(self, bucket: str, key: str) -> None:
        self.sdk.call(f"deleting obs://{bucket}/{key}", lambda sdk: sdk.deleteObject(bucket, key))

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> str:
        """See `Store.write`. A large file goes in parts; OBS verifies the MD5 of each request."""
        doing = f"writing obs://{bucket}/{key}"
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size >= self.sdk.access.multipart_from:
                return self._write_parts(doing, bucket, key, file, size, sent)
            body = Section(file, 0, size, sent)
            header = PutObjectHeader(contentLength=size, md5=base64_of_md5(md5))
            answer = self.sdk.call(
                doing,
                lambda sdk: sdk.putContent(
                    bucket, key, content=body.rewound(), headers=header, autoClose=False
                ),
            )
        compare(doing, answer, md5)
        return str(getattr(answer.body, "etag", None) or "")

    def _write_parts(
        self, doing: str, bucket: str, key: str, file: BinaryIO, size: int, sent: Callable[[int], None]
    ) -> str:
        upload, length = self.begin_parts(bucket, key).upload, self.sdk.access.part
        try:
            sections = [
                Section(file, start, min(length, size - start), sent) for start in range(0, size, length)
            ]
            etags = [
                self._write_part(doing, bucket, key, upload, number, section)
                for number, section in enumerate(sections, start=1)
            ]
            if not self.end_parts(bucket, key, upload, tuple(etags), size):
                raise Unreachable(f"{doing}: the multipart upload has gone")
            return etag_of_parts(tuple(etags))
        except BaseException:
            with suppress(StoreError):
                self.abort_parts(bucket, key, upload)
            raise

    def _write_part(
        self, doing: str, bucket: str, key: str, upload: str, number: int, section: Section
    ) -> str:
        md5 = section.md5()
        answer = self.sdk.call(
            doing,
            lambda sdk: sdk.uploadPart(
                bucket, key, number, upload, content=section.rewound(), partSize=section.size,
                md5=base64_of_md5(md5), autoClose=False,
            ),
            "etag",
        )  # fmt: skip
        compare(doing, answer, md5)
        return str(answer.body.etag)

    def begin_parts(self, bucket: str, key: str, left: Tuple[str, ...] = ()) -> MultipartUpload:
        """Begins a multipart upload, or resumes one; those of anybody else are not touched.

        `left` are the ids of our own earlier uploads of this key, the oldest first. The last one is resumed,
        unless it has gone; the others are aborted.

        Raises:
            StoreError: it could not be begun.
        """
        doing = f"writing obs://{bucket}/{key}"
        for upload in left[:-1]:
            self.abort_parts(bucket, key, upload)
        for upload in left[-1:]:
            with suppress(NotFound):
                return MultipartUpload(upload, tuple(self._parts(doing, bucket, key, upload)))
        created = self.sdk.call(doing, lambda sdk: sdk.initiateMultipartUpload(bucket, key), "uploadId")
        return MultipartUpload(created.body.uploadId, ())

    def _parts(self, doing: str, bucket: str, key: str, upload: str) -> Iterator[Tuple[int, int, str]]:
        after = 0

        def page(sdk: Any) -> Any:
            return sdk.listParts(bucket, key, upload, PAGE, after or None)

        while True:
            body = self.sdk.call(doing, page, "parts").body
            for part in body.parts:
                yield int(part.partNumber), int(part.size), part.etag or ""
                after = int(part.partNumber)
            if not body.isTruncated or not body.parts:
                return

    def end_parts(self, bucket: str, key: str, upload: str, etags: Tuple[str, ...], size: int) -> bool:
        """Makes one object of the parts; False if the upload has gone and the object is not there.

        The response may get lost, or say nothing, after OBS made the object: then the upload has gone, and
        the object tells. As long as the upload is there it is not completed, whatever object has the key.

        Raises:
            StoreError: the upload may still be completed, or OBS refused.
        """
        doing = f"writing obs://{bucket}/{key}"
        parts = [CompletePart(partNum=number, etag=etag) for number, etag in enumerate(etags, start=1)]
        request = CompleteMultipartUploadRequest(parts)
        try:
            self.sdk.call(
                doing, lambda sdk: sdk.completeMultipartUpload(bucket, key, upload, request), "etag"
            )
        except NotFound:
            return self._is_whole(doing, bucket, key, etags, size)
        except Unreachable:
            if not self._has_gone(doing, bucket, key, upload):
                raise
            return self._is_whole(doing, bucket, key, etags, size)
        return True

    def _has_gone(self, doing: str, bucket: str, key: str, upload: str) -> bool:
        """Whether there is no such upload: radosgw answers 500 to its completion, not 404."""
        try:
            next(self._parts(doing, bucket, key, upload), None)
        except NotFound:
            return True
        return False

    def _is_whole(self, doing: str, bucket: str, key: str, etags: Tuple[str, ...], size: int) -> bool:
        """Whether the object is made of these parts, by its ETag and its size in bytes."""
        try:
            found = self._metadata(doing, bucket, key, "etag")
        except NotFound:
            return False
        return bool(found.etag.strip('"') == etag_of_parts(etags) and int(found.contentLength or 0) == size)

    def abort_parts(self, bucket: str, key: str, upload: str) -> None:
        doing = f"aborting the upload of obs://{bucket}/{key}"
        with suppress(NotFound):
            self.sdk.call(doing, lambda sdk: sdk.abortMultipartUpload(bucket, key, upload))

    def unfinished(self, bucket: str, prefix: str) -> Iterator[UnfinishedUpload]:
        doing = f"listing the multipart uploads of obs://{bucket}/{prefix}"
        key = upload = ""
        while True:
            wanted = ListMultipartUploadsRequest(
                prefix=prefix or None,
                max_uploads=PAGE,
                key_marker=key or None,
                upload_id_marker=upload or None,
            )
            body = self.sdk.call(doing, partial(_list_uploads, bucket, wanted), "upload").body
            for found in body.upload:
                if found.key and found.uploadId and found.key.startswith(prefix):
                    yield UnfinishedUpload(found.key, found.uploadId, _seconds(found.initiated))
            before = (key, upload)
            key, upload = body.nextKeyMarker or "", body.nextUploadIdMarker or ""
            if not body.isTruncated or (key, upload) == before:
                return


def _list_uploads(bucket: str, wanted: Any, sdk: Any) -> Any:
    return sdk.listMultipartUploads(bucket, wanted, encoding_type="url")


def _seconds(text: Any) -> float:
    """The seconds since the epoch of a time as the SDK gives it: `2024/01/31 23:59:59`, in local time."""
    try:
        return datetime.strptime(str(text), "%Y/%m/%d %H:%M:%S").timestamp()
    except ValueError:
        return 0.0


def _head(sdk: Any, bucket: str, key: str) -> Any:
    """The answer to a HEAD. A refused one has no error code: a GET of one byte is refused with it."""
    answer = sdk.getObjectMetadata(bucket, key)
    if answer.status not in (401, 403) or answer.errorCode:
        return answer
    asked = sdk.getObject(bucket, key, loadStreamInMemory=True, headers=GetObjectHeader(range="0-0"))
    return answer if asked.status < 300 else asked
