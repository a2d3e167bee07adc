"""OBS through Huawei's SDK: the only importer of `obs`, and the place where its ways end.

What is guarded against here was measured of esdk-obs-python 3.26: HTTP errors are returned, network errors
raised, some as a bare `Exception`; TLS is not verified by default, and never against the host name; a
download writes into the final file; a listing that cannot be parsed is an empty one.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Tuple
from urllib.parse import urlsplit

import certifi
from obs import (
    CompleteMultipartUploadRequest,
    CompletePart,
    GetObjectHeader,
    ListMultipartUploadsRequest,
    ObsClient,
    PutObjectHeader,
)

from path_mapping.errors import Expired, NotFound, PathMappingError, Refused, StoreError, Unreachable
from path_mapping.localfs import CHUNK, Section, new_md5
from path_mapping.stores.access import address_of, bucket_in_path, verifying
from path_mapping.stores.obs_files import PAGE, ObsFiles
from path_mapping.stores.obs_responses import (
    base64_of_md5,
    compare,
    error_of_status,
    etag_of_parts,
    md5_of_etag,
)
from path_mapping.stores.obs_sdk import ObsSigning
from path_mapping.stores.store import STALL_SECONDS, Access, Credentials, StoredObject
from path_mapping.stores.units import Begun

PART = 16 << 20
MULTIPART_FROM = 64 << 20


class ObsStore(ObsFiles, ObsSigning):
    """Objects in OBS, or in a service with its interface; made after a fork.

    A host name is addressed with the bucket before it, as OBS wants it; an IP address (a server of a test)
    with the bucket in the path. `bundle` is a file of CA certificates instead of certifi's; `renew` is asked
    for credentials when those at hand have expired; `proxy` is the URL of one between here and there.
    """

    def __init__(
        self,
        endpoint: str,
        access_key: str,
        secret_key: str,
        token: Optional[str],
        bundle: Optional[str],
        multipart_from: int = MULTIPART_FROM,
        part: int = PART,
        timeout: float = STALL_SECONDS,
        renew: Optional[Callable[[], Credentials]] = None,
        proxy: Optional[str] = None,
    ) -> None:
        address = address_of(endpoint)
        self._endpoint = f"{address.scheme}://{address.netloc}"
        self._secure = address.scheme == "https"
        self._in_path = bucket_in_path(address.hostname or "")
        keys = Credentials(access_key, secret_key, token)
        self._access = Access(self._endpoint, keys, bundle, timeout, multipart_from, part)
        self._renew = renew
        self._proxy = urlsplit(proxy) if proxy else None
        # The SDK verifies nothing, or only the chain: its context is replaced.
        self.context = verifying(bundle or certifi.where()) if self._secure else None
        self._client = self._new_client()
        self._signers: Dict[str, ObsClient] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, access: Access) -> ObsStore:
        """The same store, in another process."""
        store = cls(access.endpoint, "", "", None, access.bundle, timeout=access.timeout)
        store.use(access.credentials)
        return store

    def __repr__(self) -> str:
        return f"ObsStore({self._endpoint!r})"

    def access(self) -> Optional[Access]:
        """None where requests must go through a proxy, which only the SDK speaks to."""
        return None if self._proxy else self._access

    def renewed(self) -> bool:
        """Asks for the credentials again; False when they are the same, or nobody can be asked."""
        before = self._access.credentials
        if self._renew is None:
            return False
        with self._lock:  # threads that are refused together
            self.use(self._renew())
        return self._access.credentials != before

    def use(self, keys: Credentials) -> None:
        """Signs with these credentials from now on."""
        self._access = dataclasses.replace(self._access, credentials=keys)
        for client in (self._client, *self._signers.values()):
            client.refresh(keys.access_key, keys.secret_key, keys.token)

    def _new_client(self, **settings: Any) -> ObsClient:
        keys, proxy = self._access.credentials, self._proxy
        client = ObsClient(
            access_key_id=keys.access_key,
            secret_access_key=keys.secret_key,
            security_token=keys.token,
            server=self._endpoint,
            path_style=self._in_path,
            max_retry_count=0,  # the retries are transfer's
            timeout=self._access.timeout,
            chunk_size=CHUNK,
            proxy_host=proxy and proxy.hostname,
            proxy_port=proxy and (proxy.port or 80),
            proxy_username=proxy and proxy.username,
            proxy_password=proxy and proxy.password,
            **settings,
        )
        client.context = self.context
        return client

    def list(self, bucket: str, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with the prefix.

        A page that says it is the last is believed only when it is not full: a missing IsTruncated reads
        as False in the SDK. Keys that do not grow would page for ever, and are an error.
        """
        doing, marker = f"listing obs://{bucket}/{prefix}", ""
        while True:
            answer = self._call(doing, partial(self._page, bucket, prefix, marker), "contents")
            for entry in answer.body.contents:
                if entry.key is None or entry.size is None:
                    raise Unreachable(f"{doing}: an object without a key or a size")
                if marker and entry.key <= marker:
                    raise Unreachable(f"{doing}: {entry.key!r} came after {marker!r}")
                marker = entry.key
                md5 = None if entry.isAppendable else md5_of_etag(entry.etag)
                yield StoredObject(entry.key, int(entry.size), md5, entry.etag or "")
            if not answer.body.contents or not (
                answer.body.is_truncated or len(answer.body.contents) >= PAGE
            ):
                return

    def _page(self, bucket: str, prefix: str, marker: str) -> Any:
        return self._client.listObjects(
            bucket, prefix=prefix or None, marker=marker or None, max_keys=PAGE, encoding_type="url"
        )

    def read(self, bucket: str, key: str) -> Iterator[bytes]:
        """The object's bytes; one that ends early, or has a wrong MD5, raises `Unreachable`."""
        doing = f"reading obs://{bucket}/{key}"
        answer = self._call(
            doing, lambda: self._client.getObject(bucket, key, loadStreamInMemory=False), "response"
        )
        response, digest = answer.body.response, new_md5()
        try:
            while True:
                piece = self._guarded(doing, lambda: response.read(CHUNK))
                if not piece:
                    break
                digest.update(piece)
                yield piece
            compare(doing, answer, digest.hexdigest())
        finally:
            response.close()

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> None:
        """Stores the file, a large one in parts; the server verifies their MD5."""
        doing = f"writing obs://{bucket}/{key}"
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size >= self._access.multipart_from:
                self._write_parts(doing, bucket, key, file, size, sent)
                return
            body = Section(file, 0, size, sent)
            header = PutObjectHeader(contentLength=size, md5=base64_of_md5(md5))
            answer = self._call(
                doing,
                lambda: self._client.putContent(
                    bucket, key, content=body.rewound(), headers=header, autoClose=False
                ),
            )
        compare(doing, answer, md5)

    def _write_parts(
        self, doing: str, bucket: str, key: str, file: BinaryIO, size: int, sent: Callable[[int], None]
    ) -> None:
        upload, length = self.begin_parts(bucket, key).upload, self._access.part
        try:
            sections = [
                Section(file, start, min(length, size - start), sent) for start in range(0, size, length)
            ]
            etags = [
                self._write_part(doing, bucket, key, upload, number, section)
                for number, section in enumerate(sections, start=1)
            ]
            self.end_parts(bucket, key, upload, tuple(etags), size)
        except BaseException:
            with suppress(StoreError):
                self.abort_parts(bucket, key, upload)
            raise

    def _write_part(
        self, doing: str, bucket: str, key: str, upload: str, number: int, section: Section
    ) -> str:
        md5 = section.md5()
        answer = self._call(
            doing,
            lambda: self._client.uploadPart(
                bucket, key, number, upload, content=section.rewound(), partSize=section.size,
                md5=base64_of_md5(md5), autoClose=False,
            ),
            "etag",
        )  # fmt: skip
        compare(doing, answer, md5)
        return str(answer.body.etag)

    def begin_parts(self, bucket: str, key: str) -> Begun:
        """Begins an upload in parts, or takes up the one that an earlier run left; others are given up."""
        doing = f"writing obs://{bucket}/{key}"
        left = self._uploads(doing, bucket, key)
        for upload in left[:-1]:
            self.abort_parts(bucket, key, upload)
        if left:
            return Begun(left[-1], tuple(self._parts(doing, bucket, key, left[-1])))
        begun = self._call(doing, lambda: self._client.initiateMultipartUpload(bucket, key), "uploadId")
        return Begun(begun.body.uploadId, ())

    def _uploads(self, doing: str, bucket: str, key: str) -> List[str]:
        """The uploads of this key that have not ended, the oldest first; none where we may not look."""
        wanted = ListMultipartUploadsRequest(prefix=key, max_uploads=PAGE)
        try:
            answer = self._call(
                doing,
                lambda: self._client.listMultipartUploads(bucket, wanted, encoding_type="url"),
                "upload",
            )
        except (Refused, NotFound):
            return []
        found = [upload for upload in answer.body.upload if upload.key == key and upload.uploadId]
        return [upload.uploadId for upload in sorted(found, key=lambda upload: str(upload.initiated))]

    def _parts(self, doing: str, bucket: str, key: str, upload: str) -> Iterator[Tuple[int, int, str]]:
        after = 0
        while True:
            request = partial(self._client.listParts, bucket, key, upload, PAGE, after or None)
            answer = self._call(doing, request, "parts")
            for part in answer.body.parts:
                yield int(part.partNumber), int(part.size), part.etag or ""
                after = int(part.partNumber)
            if not answer.body.isTruncated or not answer.body.parts:
                return

    def end_parts(self, bucket: str, key: str, upload: str, etags: Tuple[str, ...], size: int) -> None:
        """Makes one object of the parts, and compares its size and mark.

        The answer may get lost after the object was made: then it is there, and the upload is gone.
        """
        doing = f"writing obs://{bucket}/{key}"
        parts = [CompletePart(partNum=number, etag=etag) for number, etag in enumerate(etags, start=1)]
        request = CompleteMultipartUploadRequest(parts)
        try:
            self._call(
                doing, lambda: self._client.completeMultipartUpload(bucket, key, upload, request), "etag"
            )
        except (NotFound, Unreachable):
            found = self._call(doing, lambda: self._client.getObjectMetadata(bucket, key), "etag")
            if found.body.etag.strip('"') != etag_of_parts(etags):
                raise
        found = self._call(doing, lambda: self._client.getObjectMetadata(bucket, key), "contentLength")
        if found.body.contentLength != size:
            raise Unreachable(f"{doing}: OBS stored {found.body.contentLength} bytes, sent were {size}")

    def abort_parts(self, bucket: str, key: str, upload: str) -> None:
        """Gives an upload up, and its parts away; one that is gone already is as good."""
        doing = f"giving up the upload of obs://{bucket}/{key}"
        try:
            self._call(doing, lambda: self._client.abortMultipartUpload(bucket, key, upload))
        except NotFound:
            return

    def _from(self, bucket: str, key: str, offset: int) -> Any:
        """The SDK's answer to a request for the object's bytes from this one on."""
        headers = GetObjectHeader(range=f"{offset}-")
        return self._client.getObject(bucket, key, headers=headers, loadStreamInMemory=False)

    def _call(self, doing: str, request: Callable[[], Any], *wanted: str) -> Any:
        """The SDK's answer, if it is a good one; a body that it could not read lacks what is wanted of it.

        A request whose credentials have expired is made once more where there are new ones.
        """
        before = self._access.credentials
        try:
            answer = self._good(doing, request)
        except Expired:
            if self._access.credentials == before and not self.renewed():
                raise
            answer = self._good(doing, request)
        for field in wanted:
            if getattr(answer.body, field, None) is None:
                raise Unreachable(f"{doing}: the answer is damaged, it has no {field}")
        return answer

    def _good(self, doing: str, request: Callable[[], Any]) -> Any:
        answer = self._guarded(doing, request)
        if answer.status >= 300:
            raise error_of_status(doing, answer.status, answer.errorCode)
        return answer

    def _guarded(self, doing: str, request: Callable[[], Any]) -> Any:
        """Runs the request; what it raises becomes ours, whatever class the SDK chose for it."""
        try:
            return request()
        except PathMappingError:  # raised by `sent`: the caller's own
            raise
        except Exception as error:
            host = self._endpoint.rpartition("@")[2].rpartition("/")[2]
            raise Unreachable(f"{doing} at {host}: {type(error).__name__}: {error}") from error
