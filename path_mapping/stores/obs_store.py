"""OBS as a store: by signed requests, or by Huawei's SDK (`obs_sdk`): behind a proxy, and what is rare."""

from __future__ import annotations

import os
from contextlib import closing, contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Callable, Dict, Generator, Iterator, Optional, Sequence, Set, Tuple, TypeVar

from path_mapping.errors import Corrupted, Expired, NotFound, Refused, Unreachable
from path_mapping.localfs import CHUNK, Section, md5_of, new_md5
from path_mapping.stores.exchange import Exchange, Pages, Request
from path_mapping.stores.obs_sdk import (
    PAGE,
    ObsSdk,
    completed_by_sdk,
    delete_by_sdk,
    page_by_sdk,
    put_by_sdk,
    put_part_by_sdk,
    seconds_of,
    state_by_sdk,
    uploads_by_sdk,
)
from path_mapping.stores.signer import Signer, warned
from path_mapping.stores.store import FileStore, MultipartStore, SignedAccess, UnfinishedUpload
from path_mapping.stores.units import MultipartUpload
from path_mapping.wire import (
    Access,
    Credentials,
    ObjectPage,
    ObjectState,
    OpenConnections,
    Pause,
    StoredObject,
    check_order,
    checked_size,
    compare,
    etag_of_parts,
    object_state,
    parsed_completion,
    parsed_page,
    parsed_upload,
    parts_document,
)

BUFFER = 1 << 20  # bytes: a page in one piece
_ANSWER_BYTES = 1 << 16  # for any other response
LARGEST_COPY = 5 << 30  # bytes that OBS copies in one request (API reference, "Copying Objects")

Answer = TypeVar("Answer")


class ObsStore(FileStore, SignedAccess, MultipartStore):
    """Objects in OBS, or in a service with its interface; create it after a fork. See `ObsSdk`."""

    def __init__(
        self,
        access: Access,
        renew: Optional[Callable[[], Credentials]] = None,
        proxy: Optional[str] = None,
        patience: float = 0.0,
        announce: Callable[[str], None] = warned,
    ) -> None:
        self.signer = Signer(access, renew, patience, announce)
        self.sdk = ObsSdk(self.signer, proxy)
        self.multipart_from, self.part = access.multipart_from, access.part

    def __repr__(self) -> str:
        return f"ObsStore({self.signer.access.endpoint!r})"

    def access(self) -> Optional[Access]:
        return None if self.sdk.proxy else self.signer.access

    def renewed(self, used: Credentials, pause: Optional[Pause] = None) -> bool:
        return self.signer.renewed(used, pause)

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """See `Store.list`. The next page is asked for while this one is worked on.

        A full page is never taken for the last one: a service that forgets to say so would lose objects. Keys
        that do not ascend are an error: they would page forever.
        """
        doing, marker = f"listing obs://{bucket}/{prefix}", ""
        with self._pages(doing, bucket) as pages:
            page = pages.page({"prefix": prefix, "marker": marker})
            while page.objects:
                check_order(doing, marker, page)
                marker = page.objects[-1].key
                followed = page.truncated or len(page.objects) >= PAGE
                following = {"prefix": prefix, "marker": marker}
                yield page.objects[0]
                if followed:  # not for who wants the first object only
                    pages.ask_ahead(following)
                yield from page.objects[1:]
                if not followed:
                    return
                page = pages.page(following)

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        doing, marker = f"listing obs://{bucket}/{prefix}", ""
        with self._pages(doing, bucket) as pages:
            while True:
                page = pages.page({"prefix": prefix, "marker": marker, "delimiter": "/"})
                found = [one._replace(md5=None) for one in page.objects]
                found += [StoredObject(one, 0, None) for one in page.prefixes]
                found = sorted((one for one in found if one.key > marker), key=lambda one: one.key)
                yield from (one for one in found if one.key != prefix)
                if not (page.truncated or len(found) >= PAGE):
                    return
                if not found:
                    raise Unreachable(f"{doing}: the next page has nothing that comes after {marker!r}")
                marker = found[-1].key

    @contextmanager
    def _pages(self, doing: str, bucket: str) -> Iterator[Pages]:
        """The pages of a listing, by signed requests on a connection of their own, or by the SDK."""
        if self.sdk.proxy is not None:
            yield Pages(partial(page_by_sdk, self.sdk, doing, bucket), lambda query: None)
            return
        exchange = Exchange(self.signer, OpenConnections(), bytearray(BUFFER))

        def request(query: Dict[str, str]) -> Request:
            wanted = {name: value for name, value in query.items() if value}
            return Request(
                doing, "GET", bucket, "", {**wanted, "max-keys": str(PAGE), "encoding-type": "url"}
            )

        def page(query: Dict[str, str]) -> ObjectPage:
            return parsed_page(doing, self.signer.with_newest(partial(exchange.content, request(query))))

        try:
            yield Pages(page, lambda query: exchange.begin(request(query)))
        finally:
            exchange.close()

    def region(self, bucket: str) -> str:
        answer = self.sdk.call(
            f"looking up obs://{bucket}", bucket, "", lambda sdk: sdk.getBucketMetadata(bucket)
        )
        return str(getattr(answer.body, "location", None) or "")

    def find(self, bucket: str, key: str) -> Optional[ObjectState]:
        doing = f"looking up obs://{bucket}/{key}"
        try:
            if self.sdk.proxy is not None:
                return state_by_sdk(self.sdk, doing, bucket, key)
            request = Request(doing, "HEAD", bucket, key)
            found = self._by_request(lambda exchange: exchange.head(request))
        except NotFound:
            return None
        if found.length is None:
            raise Corrupted(f"{doing}: the response is damaged, it has no Content-Length")
        return object_state(doing, found.length, found.headers)

    def read(self, bucket: str, key: str) -> Generator[bytes, None, bool]:
        doing, digest = f"reading obs://{bucket}/{key}", new_md5()
        answer = self._object(doing, bucket, key)
        with closing(self._pieces(doing, answer)) as pieces:
            for piece in pieces:
                digest.update(piece)
                yield piece
        return compare(doing, answer, digest.hexdigest())

    def read_from(self, bucket: str, key: str, offset: int, version: str = "") -> Iterator[bytes]:
        """See `FileStore.read_from`. The start is skipped here if the server ignores ranges."""
        doing = f"reading obs://{bucket}/{key}" + (f" from {offset}" if offset else "")
        from obs import GetObjectHeader

        plain = version.strip('"') or None  # the SDK would send quotes as %22
        wanted = GetObjectHeader(range=f"{offset}-" if offset else None, if_match=plain)
        answer = self._object(doing, bucket, key, headers=wanted)
        left, skipped = answer.body.contentLength, 0 if answer.status == 206 else offset
        with closing(self._pieces(doing, answer)) as pieces:
            for piece in pieces:
                left = None if left is None else int(left) - len(piece)
                yield piece[skipped:]
                skipped = max(0, skipped - len(piece))
        if left:
            raise Unreachable(f"{doing}: the response ended {left} bytes early")

    def _object(self, doing: str, bucket: str, key: str, **settings: Any) -> Any:
        return self.sdk.call(
            doing,
            bucket,
            key,
            lambda sdk: sdk.getObject(bucket, key, loadStreamInMemory=False, **settings),
            "response",
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

    def copy(self, bucket: str, key: str, size: int, to_bucket: str, to_key: str) -> None:
        """See `FileStore.copy`. An object of more than 5 GiB is refused."""
        doing = f"copying obs://{bucket}/{key} to obs://{to_bucket}/{to_key}"
        if size > LARGEST_COPY:
            raise Refused(f"{doing}: found {size} bytes, expected at most 5 GiB: copy it via a local file")
        self.sdk.call(
            doing, to_bucket, to_key, lambda sdk: sdk.copyObject(bucket, key, to_bucket, to_key), "etag"
        )

    def delete(self, bucket: str, key: str) -> None:
        self.sdk.call(
            f"deleting obs://{bucket}/{key}", bucket, key, lambda sdk: sdk.deleteObject(bucket, key)
        )

    def delete_all(self, bucket: str, keys: Sequence[str]) -> None:
        """See `FileStore.delete_all`. Characters that no XML can carry, or not unchanged, go one by one."""
        listed = [key for key in keys if key.isprintable()]
        if listed:
            delete_by_sdk(self.sdk, bucket, listed)
        for key in set(keys).difference(listed):
            self.delete(bucket, key)

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> str:
        """See `Store.write`. It takes one request, whose MD5 OBS verifies; a large file is for `put_part`."""
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return self._put(bucket, key, Section(file, 0, size, sent), md5)

    def write_bytes(self, bucket: str, key: str, content: bytes) -> None:
        section = Section(BytesIO(content), 0, len(content), lambda size: None)
        self._put(bucket, key, section, md5_of([content]))

    def _put(self, bucket: str, key: str, section: Section, md5: str) -> str:
        """Stores an object by one request; returns its ETag."""
        doing = f"writing obs://{bucket}/{key}"
        answer = put_by_sdk(self.sdk, doing, bucket, key, section, md5)
        etag = str(getattr(answer.body, "etag", None) or "")
        if not compare(doing, answer, md5):
            self._look(doing, bucket, key, etag, section.size)
        return etag

    def _look(self, doing: str, bucket: str, key: str, etag: str, size: int) -> None:
        """Makes sure that an object is there, when no checksum tells; who may write only is believed."""
        try:
            found = self.find(bucket, key)
        except Expired:
            raise
        except Refused:
            return
        if found is None or (found.version, found.size) != (etag, size):
            raise Unreachable(f"{doing}: the response has no checksum, and there is no such object")

    def put_part(
        self, bucket: str, key: str, upload: str, number: int,
        source: Path, offset: int, size: int, sent: Callable[[int], None],
    ) -> str:  # fmt: skip
        doing = f"writing obs://{bucket}/{key}, part {number}"
        with source.open("rb") as file:
            section = Section(file, offset, size, sent)
            md5 = section.md5()
            answer = put_part_by_sdk(self.sdk, doing, bucket, key, upload, number, section, md5)
        compare(doing, answer, md5)
        return str(answer.body.etag)

    def begin_parts(self, bucket: str, key: str, left: Tuple[str, ...] = ()) -> MultipartUpload:
        doing = f"writing obs://{bucket}/{key}"
        for upload in left[:-1]:
            self.abort_parts(bucket, key, upload)
        for upload in left[-1:]:
            with suppress(NotFound):
                return MultipartUpload(upload, tuple(self._parts(doing, bucket, key, upload)))
        if self.sdk.proxy is not None:
            created = self.sdk.call(
                doing, bucket, key, lambda sdk: sdk.initiateMultipartUpload(bucket, key), "uploadId"
            )
            return MultipartUpload(created.body.uploadId, ())
        begin = Request(doing, "POST", bucket, key, {"uploads": ""}, plain={"Content-Length": "0"})
        return MultipartUpload(parsed_upload(doing, self._content_of(begin)), ())

    def _by_request(self, ask: Callable[[Exchange], Answer]) -> Answer:
        """What `ask` gets by a signed request on a connection of its own."""
        exchange = Exchange(self.signer, OpenConnections(), bytearray(_ANSWER_BYTES))
        try:
            return self.signer.with_newest(lambda: ask(exchange))
        finally:
            exchange.close()

    def _content_of(self, request: Request, body: bytes = b"") -> bytes:
        return self._by_request(lambda exchange: exchange.content(request, body))

    def _parts(self, doing: str, bucket: str, key: str, upload: str) -> Iterator[Tuple[int, int, str]]:
        after = 0

        def page(sdk: Any) -> Any:
            return sdk.listParts(bucket, key, upload, PAGE, after or None)

        while True:
            body = self.sdk.call(doing, bucket, key, page, "parts").body
            for part in body.parts:
                number = checked_size(doing, part.partNumber)
                if number <= after:
                    raise Unreachable(f"{doing}: the service lists part {number} after part {after}")
                yield number, checked_size(doing, part.size), part.etag or ""
                after = number
            if not body.isTruncated or not body.parts:
                return

    def end_parts(
        self, bucket: str, key: str, upload: str, etags: Tuple[str, ...], size: int, compared: bool = True
    ) -> Optional[str]:
        """See `MultipartStore.end_parts`.

        The response may get lost, or say nothing, after OBS made the object: then the upload has gone, and
        the object tells, by its size, and by its ETag, which is made of those of the parts; or which is
        another one than before, if these were not `compared`. As long as the upload is there it is not
        completed, whatever object has the key.
        """
        doing = f"writing obs://{bucket}/{key}"
        expected, before = etag_of_parts(etags), "" if compared else self._etag_of(bucket, key, None)
        try:
            if self.sdk.proxy is not None:
                etag = completed_by_sdk(self.sdk, doing, bucket, key, upload, etags)
            else:
                end = Request(doing, "POST", bucket, key, {"uploadId": upload})
                etag = parsed_completion(doing, self._content_of(end, parts_document(etags)))
        except (NotFound, Unreachable) as error:
            if self._has_gone(doing, bucket, key, upload):
                found = self._etag_of(bucket, key, size)
                return found if found and (found == expected if compared else found != before) else None
            if isinstance(error, Unreachable):
                raise
            self.abort_parts(bucket, key, upload)  # a part of it has gone
            return None
        return (etag or self._etag_of(bucket, key, size) or expected).strip('"')

    def _etag_of(self, bucket: str, key: str, size: Optional[int]) -> str:
        """The ETag of an object without quotes; empty if there is none, or none of this size in bytes."""
        found = self.find(bucket, key)
        return found.version.strip('"') if found is not None and size in (None, found.size) else ""

    def _has_gone(self, doing: str, bucket: str, key: str, upload: str) -> bool:
        """Whether there is no such upload: radosgw answers 500 to its completion, not 404."""
        try:
            next(self._parts(doing, bucket, key, upload), None)
        except NotFound:
            return True
        return False

    def abort_parts(self, bucket: str, key: str, upload: str) -> None:
        doing = f"aborting the upload of obs://{bucket}/{key}"
        with suppress(NotFound):
            if self.sdk.proxy is None:
                self._content_of(Request(doing, "DELETE", bucket, key, {"uploadId": upload}))
            else:
                self.sdk.call(doing, bucket, key, lambda sdk: sdk.abortMultipartUpload(bucket, key, upload))

    def unfinished(self, bucket: str, prefix: str) -> Iterator[UnfinishedUpload]:
        doing = f"listing the multipart uploads of obs://{bucket}/{prefix}"
        from obs import ListMultipartUploadsRequest

        key = upload = ""
        asked: Set[Tuple[str, str]] = set()
        while (key, upload) not in asked:
            asked.add((key, upload))
            wanted = ListMultipartUploadsRequest(
                prefix=prefix or None,
                max_uploads=PAGE,
                key_marker=key or None,
                upload_id_marker=upload or None,
            )
            body = self.sdk.call(doing, bucket, "", partial(uploads_by_sdk, bucket, wanted), "upload").body
            for found in body.upload:
                if found.key and found.uploadId and found.key.startswith(prefix):
                    yield UnfinishedUpload(found.key, found.uploadId, seconds_of(found.initiated))
            key, upload = body.nextKeyMarker or "", body.nextUploadIdMarker or ""
            if not body.isTruncated:
                return
