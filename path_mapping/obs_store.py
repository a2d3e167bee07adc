"""OBS through Huawei's SDK: the only importer of `obs`, and the place where its ways end.

What is guarded against here was measured of esdk-obs-python 3.26: HTTP errors are returned, network errors
raised, some as a bare `Exception`; TLS is not verified by default, and never against the host name; a
download writes into the final file; a listing that cannot be parsed is an empty one.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import ssl
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Callable, Iterator, Optional
from urllib.parse import urlsplit

import certifi
from obs import CompleteMultipartUploadRequest, CompletePart, GetObjectHeader, ObsClient, PutObjectHeader

from path_mapping.errors import (
    CredentialsMissing,
    NotFound,
    PathMappingError,
    Refused,
    StoreError,
    Unreachable,
)
from path_mapping.local_file import CHUNK, md5_of, new_md5
from path_mapping.obs_files import ObsFiles
from path_mapping.store import StoredObject

TIMEOUT_SECONDS = 30  # of one read or write on a connection
PAGE = 1000
PART = 64 << 20
MULTIPART_FROM = 1 << 30
LINE_CODES = {"BadDigest", "IncompleteBody", "RequestTimeout"}  # a 400, but for what the network did


class ObsStore(ObsFiles):
    """Objects in OBS, or in a service with its interface; used by one thread, made after a fork.

    A host name is addressed with the bucket before it, as OBS wants it; an IP address (a server of a test)
    with the bucket in the path. `bundle` is a file of CA certificates instead of certifi's.
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
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        address = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        if not address.hostname or address.scheme not in ("http", "https"):
            raise CredentialsMissing(
                f"OBS_ENDPOINT: found {endpoint!r}, expected https://obs.REGION.example.com"
            )
        self._endpoint = f"{address.scheme}://{address.netloc}"
        self._multipart_from = multipart_from
        self._part = part
        self._client = ObsClient(
            access_key_id=access_key,
            secret_access_key=secret_key,
            security_token=token,
            server=self._endpoint,
            path_style=_is_address(address.hostname),
            max_retry_count=0,  # the retries are transfer's
            timeout=timeout,
            chunk_size=CHUNK,
        )
        if address.scheme == "https":  # the SDK verifies nothing, or only the chain: its context is replaced
            self._client.context = _verifying(bundle or certifi.where())

    def __repr__(self) -> str:
        return f"ObsStore({self._endpoint!r})"

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
                md5 = None if entry.isAppendable else _md5_of_etag(entry.etag)
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
            _compare(doing, answer, digest.hexdigest())
        finally:
            response.close()

    def write(self, bucket: str, key: str, source: Path, md5: str, sent: Callable[[int], None]) -> None:
        """Stores the file, a large one in parts; the server verifies their MD5."""
        doing = f"writing obs://{bucket}/{key}"
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size >= self._multipart_from:
                self._write_parts(doing, bucket, key, file, size, sent)
                return
            body = _Body(file, size, sent)
            header = PutObjectHeader(contentLength=size, md5=_base64(md5))
            answer = self._call(
                doing,
                lambda: self._client.putContent(bucket, key, content=body, headers=header, autoClose=False),
            )
        _compare(doing, answer, md5)

    def _write_parts(
        self, doing: str, bucket: str, key: str, file: BinaryIO, size: int, sent: Callable[[int], None]
    ) -> None:
        begun = self._call(doing, lambda: self._client.initiateMultipartUpload(bucket, key), "uploadId")
        upload = begun.body.uploadId
        try:
            parts = [
                self._write_part(
                    doing, bucket, key, upload, number, file, min(self._part, size - offset), sent
                )
                for number, offset in enumerate(range(0, size, self._part), start=1)
            ]
            request = CompleteMultipartUploadRequest(parts)
            self._call(doing, lambda: self._client.completeMultipartUpload(bucket, key, upload, request))
        except BaseException:
            self._guarded(doing, lambda: self._client.abortMultipartUpload(bucket, key, upload), swallow=True)
            raise
        found = self._call(doing, lambda: self._client.getObjectMetadata(bucket, key), "contentLength")
        if found.body.contentLength != size:
            raise Unreachable(f"{doing}: OBS stored {found.body.contentLength} bytes, sent were {size}")

    def _write_part(
        self,
        doing: str,
        bucket: str,
        key: str,
        upload: str,
        number: int,
        file: BinaryIO,
        size: int,
        sent: Callable[[int], None],
    ) -> CompletePart:
        offset = (number - 1) * self._part
        file.seek(offset)
        md5 = md5_of(_pieces(file, size))
        file.seek(offset)
        answer = self._call(
            doing,
            lambda: self._client.uploadPart(
                bucket,
                key,
                number,
                upload,
                content=_Body(file, size, sent),
                partSize=size,
                md5=_base64(md5),
                autoClose=False,
            ),
            "etag",
        )
        _compare(doing, answer, md5)
        return CompletePart(partNum=number, etag=answer.body.etag)

    def _from(self, bucket: str, key: str, offset: int) -> Any:
        """The SDK's answer to a request for the object's bytes from this one on."""
        headers = GetObjectHeader(range=f"{offset}-")
        return self._client.getObject(bucket, key, headers=headers, loadStreamInMemory=False)

    def _call(self, doing: str, request: Callable[[], Any], *wanted: str) -> Any:
        """The SDK's answer, if it is a good one; a body that it could not read lacks what is wanted of it."""
        answer = self._guarded(doing, request)
        if answer.status >= 300:
            raise error_of_status(doing, answer.status, answer.errorCode)
        for field in wanted:
            if getattr(answer.body, field, None) is None:
                raise Unreachable(f"{doing}: the answer is damaged, it has no {field}")
        return answer

    def _guarded(self, doing: str, request: Callable[[], Any], swallow: bool = False) -> Any:
        """Runs the request; what it raises becomes ours, whatever class the SDK chose for it."""
        try:
            return request()
        except PathMappingError:  # raised by `sent`: the caller's own
            raise
        except Exception as error:
            if swallow:
                return None
            raise Unreachable(f"{doing}: {type(error).__name__}: {error}") from error


def error_of_status(doing: str, status: int, code: Optional[str]) -> StoreError:
    """The error for an HTTP status; `code` is OBS' own word for it, which a HEAD does not have."""
    message = f"{doing}: HTTP {status}" + (f" {code}" if code else "")
    if status == 404:
        return NotFound(message)
    if status in (408, 429) or status >= 500 or code in LINE_CODES:
        return Unreachable(message)
    return Refused(message)


class _Body:
    """The next `size` bytes of a file, for the SDK to send; a file that has become shorter is an error."""

    def __init__(self, file: BinaryIO, size: int, sent: Callable[[int], None]) -> None:
        self._file = file
        self._left = size
        self._sent = sent

    def read(self, size: int) -> bytes:
        piece = self._file.read(min(size, self._left))
        if not piece and self._left:
            raise Unreachable(f"the file ended {self._left} bytes early: it became shorter")
        self._left -= len(piece)
        self._sent(len(piece))
        return piece


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        piece = file.read(min(CHUNK, size))
        if not piece:
            return
        size -= len(piece)
        yield piece


def _md5_of_etag(etag: Optional[str]) -> Optional[str]:
    """The MD5 in an ETag: that of a multipart upload (`...-3`) is none."""
    text = (etag or "").strip('"').lower()
    return text if len(text) == 32 and all(letter in "0123456789abcdef" for letter in text) else None


def _compare(doing: str, answer: Any, md5: str) -> None:
    """Raises `Unreachable` when the answer's ETag is an MD5, and another one.

    Of an encrypted object it only looks like an MD5 (OBS API reference, server-side encryption); of one that
    was appended to, nothing says that it is the MD5 of the whole.
    """
    body = answer.body
    appended = any(name.endswith("object-type") and value == "Appendable" for name, value in answer.header)
    if body is None or body.sseKms or body.sseC or appended:
        return
    stored = _md5_of_etag(body.etag)
    if stored is not None and stored != md5:
        raise Unreachable(f"{doing}: in OBS the MD5 is {stored}, here {md5}")


def _verifying(bundle: str) -> ssl.SSLContext:
    """A context that checks the chain and the host name."""
    try:
        return ssl.create_default_context(cafile=bundle)
    except OSError as error:  # ssl.SSLError is one
        raise CredentialsMissing(f"SSL_CERT_FILE: {bundle} is no file of certificates: {error}") from error


def _base64(md5: str) -> str:
    return base64.b64encode(bytes.fromhex(md5)).decode("ascii")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
