"""OBS as a store: by signed requests, and by Huawei's SDK (`obs_sdk`) for rare operations."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Callable, TypeVar

from path_mapping.errors import Refused, Unreachable
from path_mapping.localfs.source_file import chunks, md5_of
from path_mapping.stores import object_requests
from path_mapping.stores.access import Access, Credentials
from path_mapping.stores.blocking import Begun, run
from path_mapping.stores.contents import ContentSum, base64_of_md5
from path_mapping.stores.data_path import DataPath, if_match
from path_mapping.stores.exchange import Exchange, Request
from path_mapping.stores.http_connection import ConnectionFailed, Piece, Response
from path_mapping.stores.object_requests import PAGE
from path_mapping.stores.objects import Checksums, ObjectState, StoredObject
from path_mapping.stores.obs_sdk import ObsSdk, delete_by_sdk, seconds_of
from path_mapping.stores.responses import ObjectPage, parse_page
from path_mapping.stores.signer import Signer, log_warning
from path_mapping.stores.store import Store, UnfinishedUpload
from path_mapping.stores.units import MultipartUpload, UnitRunner

# Bytes of an object that are read at once.
BUFFER = 1 << 20
# Bytes that OBS copies in one request (API reference, "Copying Objects").
LARGEST_COPY = 5 << 30
Result = TypeVar("Result")


class ObsStore(Store):
    """Objects in OBS, or in a service with its interface; create it after a fork. See `Signer`."""

    signer: Signer

    def __init__(
        self,
        access: Access,
        renew: Callable[[], Credentials] | None = None,
        patience: float = 0.0,
        announce: Callable[[str], None] = log_warning,
    ) -> None:
        self.signer = Signer(access, renew, patience, announce)
        self.multipart_from, self.part = access.multipart_from, access.part
        self._sdk = ObsSdk(self.signer)

    def __repr__(self) -> str:
        return f"ObsStore({self.signer.access.endpoint!r})"

    def runner(self, closing: threading.Event) -> UnitRunner:
        return DataPath(self.signer, closing)

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """See `Store.list`. The next page is requested while the caller works on this one."""
        return self._entries(bucket, prefix, "")

    def level(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        entries = self._entries(bucket, prefix, "/")
        return (entry._replace(md5=None) for entry in entries if entry.key != prefix)

    def _entries(self, bucket: str, prefix: str, delimiter: str) -> Iterator[StoredObject]:
        """Yields the objects and common prefixes of a listing.

        A full page is never taken for the last one, in case that a service does not mark it as truncated.
        Keys that do not ascend are an error: the listing would never end.
        """
        doing, marker = f"listing obs://{bucket}/{prefix}", ""
        with closing(Exchange(self.signer)) as exchange:

            def page() -> Awaitable[bytes]:
                query = {"prefix": prefix, "marker": marker, "delimiter": delimiter}
                used = {name: value for name, value in query.items() if value}
                used.update({"max-keys": str(PAGE), "encoding-type": "url"})
                return exchange.content(Request(doing, "GET", bucket, "", query=used))

            content = run(exchange.with_newest(page))
            while True:
                found = parse_page(doing, content)
                entries = _in_order(marker, found) if delimiter else found.objects
                check_order(doing, marker, entries)
                followed = found.truncated or len(entries) >= PAGE
                if followed and not entries:
                    raise Unreachable(f"{doing}: the next page has nothing that comes after {marker!r}")
                yield from entries[:1]
                marker = entries[-1].key if entries else ""
                # After the first object: some callers want no more, and need no second page.
                if not followed:
                    yield from entries[1:]
                    return
                ahead = Begun(exchange.with_newest(page))
                try:
                    yield from entries[1:]
                except GeneratorExit:
                    ahead.close()
                    raise
                try:
                    content = ahead.result()
                except Unreachable as error:
                    if not isinstance(error.__cause__, ConnectionFailed):
                        raise
                    # The server did not wait until its response was read.
                    content = run(exchange.with_newest(page))

    def _run(self, ask: Callable[[Exchange], Awaitable[Result]]) -> Result:
        """Returns the result of a task on connections of its own."""
        with closing(Exchange(self.signer)) as exchange:
            return run(exchange.with_newest(lambda: ask(exchange)))

    def region(self, bucket: str) -> str:
        answer = self._sdk.call(
            f"looking up obs://{bucket}", bucket, "", lambda sdk: sdk.getBucketMetadata(bucket)
        )
        return str(getattr(answer.body, "location", None) or "")

    def find(self, bucket: str, key: str) -> ObjectState | None:
        return self._run(lambda exchange: object_requests.find(exchange, bucket, key))

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        request = Request(f"reading obs://{bucket}/{key}", "GET", bucket, key)
        with self._opened(request) as (response, pieces):
            stated = Checksums.stated(response.headers, response.length or 0)
            content = ContentSum(stated)
            for piece in pieces:
                content.add(piece)
                yield bytes(piece)
        content.check(request.doing, stated)

    def read_from(self, bucket: str, key: str, offset: int, version: str = "") -> Iterator[bytes]:
        """See `Store.read_from`. If the server ignores ranges, the start is read and skipped."""
        doing = f"reading obs://{bucket}/{key}" + (f" from {offset}" if offset else "")
        plain = {"Range": f"bytes={offset}-"} if offset else {}
        request = Request(doing, "GET", bucket, key, plain={**plain, **if_match(version)})
        with self._opened(request) as (response, pieces):
            promised = response.text("content-range")
            if response.status == 206 and not promised.startswith(f"bytes {offset}-"):
                raise Unreachable(f"{doing}: found Content-Range {promised!r}, expected one from {offset}")
            skipped = 0 if response.status == 206 else offset
            for piece in pieces:
                yield bytes(piece[skipped:])
                skipped = max(0, skipped - len(piece))

    @contextmanager
    def _opened(self, request: Request) -> Iterator[tuple[Response, Iterator[Piece]]]:
        """Opens the response to a GET, and its body: pieces that are valid until the next."""
        exchange = Exchange(self.signer)
        with closing(exchange), run(exchange.with_newest(lambda: exchange.ask(request))) as answer:
            answer.most = sys.maxsize
            room = memoryview(bytearray(BUFFER))
            yield answer.response, iter(lambda: run(answer.piece(room)), b"")

    def copy(self, bucket: str, key: str, size: int, to_bucket: str, to_key: str) -> None:
        """See `Store.copy`. An object of more than 5 GiB is refused."""
        doing = f"copying obs://{bucket}/{key} to obs://{to_bucket}/{to_key}"
        if size > LARGEST_COPY:
            raise Refused(f"{doing}: found {size} bytes, expected at most 5 GiB: copy it via a local file")
        self._sdk.call(
            doing, to_bucket, to_key, lambda sdk: sdk.copyObject(bucket, key, to_bucket, to_key), "etag"
        )

    def delete(self, bucket: str, key: str) -> None:
        self._run(lambda exchange: object_requests.delete(exchange, bucket, key))

    def delete_all(self, bucket: str, keys: Sequence[str]) -> None:
        """See `Store.delete_all`. Keys with characters that XML cannot carry are deleted one by one."""
        listed = [key for key in keys if key.isprintable()]
        if listed:
            delete_by_sdk(self._sdk, bucket, listed)
        for key in set(keys).difference(listed):
            self.delete(bucket, key)

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> str:
        """See `Store.write`. It takes one request, whose MD5 OBS verifies; large files are sent in parts."""
        size = os.stat(source).st_size
        return self._put(bucket, key, lambda: chunks(source), size=size, md5=md5, sent=sent)

    def write_bytes(self, bucket: str, key: str, content: bytes) -> str:
        pieces = (content,) if content else ()
        return self._put(bucket, key, lambda: pieces, size=len(content), md5=md5_of(pieces))

    def _put(
        self,
        bucket: str,
        key: str,
        body: Callable[[], Iterable[Piece]],
        *,
        size: int,
        md5: str,
        sent: Callable[[int], None] = lambda size: None,
    ) -> str:
        """Stores an object by one request; returns its ETag."""
        headers = {"Content-MD5": base64_of_md5(md5)}
        plain = {"Content-Length": str(size)}
        request = Request(f"writing obs://{bucket}/{key}", "PUT", bucket, key, headers=headers, plain=plain)
        return self._run(lambda exchange: exchange.put_object(request, body, size, sent)).etag

    def begin_parts(self, bucket: str, key: str, left: tuple[str, ...] = ()) -> MultipartUpload:
        return self._run(lambda exchange: object_requests.begin_parts(exchange, bucket, key, left))

    def abort_parts(self, bucket: str, key: str, upload: str) -> None:
        self._run(lambda exchange: object_requests.abort_parts(exchange, bucket, key, upload))

    def unfinished(self, bucket: str, prefix: str) -> Iterator[UnfinishedUpload]:
        doing = f"listing the multipart uploads of obs://{bucket}/{prefix}"
        from obs import ListMultipartUploadsRequest

        wanted = ListMultipartUploadsRequest(prefix=prefix or None, max_uploads=PAGE)
        asked: set[tuple[str | None, str | None]] = set()

        def page(sdk: Any) -> Any:
            return sdk.listMultipartUploads(bucket, wanted, encoding_type="url")

        while (wanted.key_marker, wanted.upload_id_marker) not in asked:
            asked.add((wanted.key_marker, wanted.upload_id_marker))
            body = self._sdk.call(doing, bucket, "", page, "upload").body
            for listed in body.upload:
                if listed.key and listed.uploadId and listed.key.startswith(prefix):
                    yield UnfinishedUpload(listed.key, listed.uploadId, seconds_of(listed.initiated))
            if not body.isTruncated:
                return
            wanted.key_marker = body.nextKeyMarker or None
            wanted.upload_id_marker = body.nextUploadIdMarker or None


def _in_order(marker: str, page: ObjectPage) -> list[StoredObject]:
    """Returns objects and common prefixes of a page in the order of their keys, after the marker."""
    entries = page.objects + [StoredObject(prefix, 0, None) for prefix in page.prefixes]
    return sorted((entry for entry in entries if entry.key > marker), key=lambda entry: entry.key)


def check_order(doing: str, marker: str, entries: Sequence[StoredObject]) -> None:
    """Raises `Unreachable` if the keys do not ascend from the marker."""
    for entry in entries:
        if entry.key <= marker:
            raise Unreachable(f"{doing}: {entry.key!r} came after {marker!r}")
        marker = entry.key
