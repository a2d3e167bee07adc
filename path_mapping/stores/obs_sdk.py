"""Huawei's SDK, esdk-obs-python: its client, its answers and exceptions as ours.

What is guarded against was observed with version 3.26: HTTP errors are returned but network errors raised,
some as a bare `Exception`; by default TLS is not verified, and the host name never is.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple
from urllib.parse import urlsplit

from path_mapping.errors import Corrupted, PathMappingError, Refused, Unreachable
from path_mapping.localfs import CHUNK, Section
from path_mapping.stores.signer import Signer, server_of
from path_mapping.wire import (
    CRC64_HEADERS,
    Credentials,
    ObjectPage,
    ObjectState,
    StoredObject,
    base64_of_md5,
    error_of_status,
    is_untrusted,
    md5_of_etag,
    object_state,
)

if TYPE_CHECKING:
    from obs import ObsClient

PAGE = 1000  # entries in one answer, the most that OBS returns (API reference, "Listing Objects in a Bucket")


class ObsSdk:
    """The SDK for one endpoint; create it after a fork. A failed call is retried only with new credentials.

    It is imported by the first call, which takes a while. `proxy` is a URL.
    """

    def __init__(self, signer: Signer, proxy: Optional[str] = None) -> None:
        self.proxy = urlsplit(proxy) if proxy else None
        self._signer = signer
        self._client: Any = None
        self._keys = signer.access.credentials  # those of the client
        self._lock = threading.Lock()

    def _current(self) -> ObsClient:
        """The client, with the current credentials."""
        with self._lock:
            newest = self._signer.access.credentials
            if self._client is None:
                self._client = self._new_client(newest)
            elif newest is not self._keys:
                self._client.refresh(newest.access_key, newest.secret_key, newest.token)
            self._keys = newest
            return self._client

    def _new_client(self, keys: Credentials) -> ObsClient:
        from obs import ObsClient  # slow to import

        access, proxy = self._signer.access, self.proxy
        client = ObsClient(
            access_key_id=keys.access_key,
            secret_access_key=keys.secret_key,
            security_token=keys.token,
            server=access.endpoint,
            path_style=self._signer.in_path,
            max_retry_count=0,  # `workers.retry` does the retries
            timeout=access.timeout,
            chunk_size=CHUNK,
            proxy_host=proxy and proxy.hostname,
            proxy_port=proxy and (proxy.port or 80),
            proxy_username=proxy and proxy.username,
            proxy_password=proxy and proxy.password,
        )
        client.context = self._signer.context  # the SDK's own verifies nothing, or only the chain
        host = urlsplit(access.endpoint).hostname or ""
        if ":" in host:
            _accept_ipv6(client, host, urlsplit(access.endpoint).port)
        return client

    def call(self, doing: str, request: Callable[[ObsClient], Any], *fields: str) -> Any:
        """The SDK's answer to a request; `doing` names the operation in errors.

        The SDK returns a body that it cannot parse without some of its `fields`: those must be there.

        Raises:
            StoreError: by the status of the answer, see `error_of_status`.
            Unreachable: the network failed, or the response is damaged.
        """
        answer = self._signer.with_newest(lambda: self._good(doing, request))
        for field in fields:
            if getattr(answer.body, field, None) is None:
                raise Corrupted(f"{doing}: the response is damaged, it has no {field}")
        return answer

    def _good(self, doing: str, request: Callable[[ObsClient], Any]) -> Any:
        answer = self.guarded(doing, lambda: request(self._current()))
        if answer.status >= 300:
            raise error_of_status(doing, answer.status, answer.errorCode)
        return answer

    def guarded(self, doing: str, request: Callable[[], Any]) -> Any:
        """Runs the request; what the SDK raises becomes `Unreachable`, or `Refused` for a certificate."""
        try:
            return request()
        except PathMappingError:  # raised by a callback, not by the SDK
            raise
        except Exception as error:
            host = server_of(self._signer.access.endpoint)
            kind = Refused if is_untrusted(error) else Unreachable
            raise kind(f"{doing} at {host}: {type(error).__name__}: {error}") from error


def _accept_ipv6(client: ObsClient, host: str, port: Optional[int]) -> None:
    """Has the SDK use an IPv6 address, which it cuts at its first colon: with brackets, but to connect."""
    client.server, client.port = f"[{host}]", port or client.port
    connect = client._get_server_connection_use_http1x
    client._get_server_connection_use_http1x = lambda secure, server, *rest: connect(secure, host, *rest)


def page_by_sdk(sdk: ObsSdk, doing: str, bucket: str, query: Dict[str, str]) -> ObjectPage:
    """A page of a listing behind a proxy, which our own connections do not go through.

    Raises:
        Unreachable: an object without a key or a size.
    """
    wanted = {name: value or None for name, value in query.items()}
    body = sdk.call(
        doing,
        lambda client: client.listObjects(bucket, max_keys=PAGE, encoding_type="url", **wanted),
        "contents",
        "name",
    ).body
    objects = []
    for one in body.contents:
        if one.key is None or one.size is None:
            raise Unreachable(f"{doing}: an object without a key or a size")
        md5 = None if one.isAppendable else md5_of_etag(one.etag)
        objects.append(StoredObject(one.key, int(one.size), md5, one.etag or ""))
    return ObjectPage(objects, [one.prefix for one in body.commonPrefixs or ()], bool(body.is_truncated))


def uploads_by_sdk(bucket: str, wanted: Any, sdk: Any) -> Any:
    """The answer to a listing of multipart uploads."""
    return sdk.listMultipartUploads(bucket, wanted, encoding_type="url")


def seconds_of(text: Any) -> float:
    """The seconds since the epoch of a time as the SDK gives it: `2024/01/31 23:59:59`, in local time."""
    from datetime import datetime  # as slow to import as a listing of a few objects takes

    try:
        return datetime.strptime(str(text), "%Y/%m/%d %H:%M:%S").timestamp()
    except ValueError:
        return 0.0


def put_by_sdk(sdk: ObsSdk, doing: str, bucket: str, key: str, body: Section, md5: str) -> Any:
    """The answer to an upload by one request, whose MD5 (hex) OBS verifies."""
    from obs import PutObjectHeader

    header = PutObjectHeader(contentLength=body.size, md5=base64_of_md5(md5))
    return sdk.call(
        doing,
        lambda client: client.putContent(
            bucket, key, content=body.rewound(), headers=header, autoClose=False
        ),
    )


def put_part_by_sdk(
    sdk: ObsSdk, doing: str, bucket: str, key: str, upload: str, number: int, body: Section, md5: str
) -> Any:
    """The answer to an upload of a part, whose MD5 (hex) OBS verifies."""
    return sdk.call(
        doing,
        lambda client: client.uploadPart(
            bucket, key, number, upload, content=body.rewound(), partSize=body.size,
            md5=base64_of_md5(md5), autoClose=False,
        ),
        "etag",
    )  # fmt: skip


def completed_by_sdk(
    sdk: ObsSdk, doing: str, bucket: str, key: str, upload: str, etags: Tuple[str, ...]
) -> str:
    """Ends a multipart upload behind a proxy; the ETag of the object, empty if the answer has none."""
    from obs import CompleteMultipartUploadRequest, CompletePart

    parts = [CompletePart(partNum=number, etag=etag) for number, etag in enumerate(etags, start=1)]
    request = CompleteMultipartUploadRequest(parts)
    answer = sdk.call(
        doing, lambda client: client.completeMultipartUpload(bucket, key, upload, request), "key"
    )
    return answer.body.etag or ""


def state_by_sdk(sdk: ObsSdk, doing: str, bucket: str, key: str) -> ObjectState:
    """The state of an object behind a proxy. Raises `NotFound`, and what `ObsSdk.call` raises."""
    answer = sdk.call(doing, partial(_head, bucket, key), "contentLength")
    headers = {name.lower().encode(): str(value).encode() for name, value in answer.header}
    headers[CRC64_HEADERS[0].encode()] = str(answer.body.crc64 or "").encode()  # the SDK drops the prefix
    return object_state(int(answer.body.contentLength), headers)


def _head(bucket: str, key: str, sdk: Any) -> Any:
    """The answer to a HEAD. A refused one has no error code: a GET of one byte is refused with it."""
    from obs import GetObjectHeader

    answer = sdk.getObjectMetadata(bucket, key)
    if answer.status not in (401, 403) or answer.errorCode:
        return answer
    asked = sdk.getObject(bucket, key, loadStreamInMemory=True, headers=GetObjectHeader(range="0-0"))
    return answer if asked.status < 300 else asked
