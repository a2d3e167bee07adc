"""Huawei's SDK, esdk-obs-python: its client, its answers and exceptions as ours.

What is guarded against was observed with version 3.26: HTTP errors are returned but network errors raised,
some as a bare `Exception`; by default TLS is not verified, and the host name never is.
"""

from __future__ import annotations

import threading
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from path_mapping.errors import Corrupted, PathMappingError, Refused, Unreachable
from path_mapping.localfs import CHUNK, Section
from path_mapping.stores.signer import Signer, server_of
from path_mapping.wire import (
    CRC64_HEADERS,
    MOST_REDIRECTS,
    REDIRECTS,
    Credentials,
    ObjectPage,
    ObjectState,
    StoredObject,
    base64_of_md5,
    bucket_in_path,
    checked_size,
    error_of_status,
    is_untrusted,
    md5_of_etag,
    object_state,
)

if TYPE_CHECKING:
    from obs import ObsClient

PAGE = 1000  # entries in one answer, the most that OBS returns (API reference, "Listing Objects in a Bucket")

# What a single deletion would be answered with, of which a bulk deletion tells only the code.
_STATUS_OF_CODE = {"AccessDenied": 403, "InternalError": 500, "ServiceUnavailable": 503}


class ObsSdk:
    """The SDK for one endpoint; create it after a fork. A failed call is retried only with new credentials.

    It is imported by the first call, which takes a while. `proxy` is a URL.
    """

    def __init__(self, signer: Signer, proxy: Optional[str] = None) -> None:
        self.proxy = urlsplit(proxy) if proxy else None
        self._signer = signer
        self._clients: Dict[str, Any] = {}  # by endpoint
        self._keys = signer.access.credentials  # those of the clients
        self._lock = threading.Lock()

    def _current(self, bucket: str) -> ObsClient:
        """The client for a bucket, with the current credentials."""
        with self._lock:
            newest, endpoint = self._signer.access.credentials, self._signer.endpoint(bucket)
            if newest is not self._keys:
                for client in self._clients.values():
                    client.refresh(newest.access_key, newest.secret_key, newest.token)
            self._keys = newest
            if endpoint not in self._clients:
                self._clients[endpoint] = self._new_client(endpoint, newest)
            return self._clients[endpoint]

    def _new_client(self, endpoint: str, keys: Credentials) -> ObsClient:
        from obs import ObsClient  # slow to import

        access, proxy = self._signer.access, self.proxy
        client = ObsClient(
            access_key_id=keys.access_key,
            secret_access_key=keys.secret_key,
            security_token=keys.token,
            server=endpoint,
            path_style=bucket_in_path(urlsplit(endpoint).hostname or ""),
            max_retry_count=0,  # `workers.retry` does the retries
            max_redirect_count=0,  # it would send the credentials to any host
            timeout=access.timeout,
            chunk_size=CHUNK,
            proxy_host=proxy and proxy.hostname,
            proxy_port=proxy and (proxy.port or 80),
            proxy_username=proxy and proxy.username,
            proxy_password=proxy and proxy.password,
        )
        client.context = self._signer.context  # the SDK's own verifies nothing, or only the chain
        host = urlsplit(endpoint).hostname or ""
        if ":" in host:
            _accept_ipv6(client, host, urlsplit(endpoint).port)
        return client

    def call(
        self, doing: str, bucket: str, key: str, request: Callable[[ObsClient], Any], *fields: str
    ) -> Any:
        """The SDK's answer to a request for an object, or the bucket; `doing` names the operation in errors.

        The SDK returns a body that it cannot parse without some of its `fields`: those must be there.

        Raises:
            StoreError: by the status of the answer, see `error_of_status`.
            Unreachable: the network failed, or the response is damaged.
        """
        answer = self._signer.with_newest(lambda: self._good(doing, bucket, key, request))
        for field in fields:
            if getattr(answer.body, field, None) is None:
                raise Corrupted(f"{doing}: the response is damaged, it has no {field}")
        return answer

    def _good(self, doing: str, bucket: str, key: str, request: Callable[[ObsClient], Any]) -> Any:
        answer = self.guarded(doing, lambda: request(self._current(bucket)))
        for _ in range(MOST_REDIRECTS):
            location = dict(answer.header or ()).get("location")
            if answer.status not in REDIRECTS or not location:
                break
            self._signer.follow(doing, answer.status, bucket, key, location)
            answer = self.guarded(doing, lambda: request(self._current(bucket)))
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
        Corrupted: an object without a key or a size.
    """
    wanted = {name: value or None for name, value in query.items()}
    body = sdk.call(
        doing,
        bucket,
        "",
        lambda client: client.listObjects(bucket, max_keys=PAGE, encoding_type="url", **wanted),
        "contents",
        "name",
    ).body
    objects = []
    for one in body.contents:
        if one.key is None:
            raise Corrupted(f"{doing}: the response is damaged: an object without a key")
        md5 = None if one.isAppendable else md5_of_etag(one.etag)
        objects.append(StoredObject(one.key, checked_size(doing, one.size), md5, one.etag or ""))
    return ObjectPage(objects, [one.prefix for one in body.commonPrefixs or ()], bool(body.is_truncated))


def uploads_by_sdk(bucket: str, wanted: Any, sdk: Any) -> Any:
    """The answer to a listing of multipart uploads."""
    return sdk.listMultipartUploads(bucket, wanted, encoding_type="url")


def seconds_of(text: Any) -> float:
    """The seconds since the epoch of a time as the SDK gives it: `2024/01/31 23:59:59`, in local time."""
    try:
        return datetime.strptime(str(text), "%Y/%m/%d %H:%M:%S").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def delete_by_sdk(sdk: ObsSdk, bucket: str, keys: Sequence[str]) -> None:
    """Deletes objects by one request, whose answer names only those that could not be deleted."""
    from obs import DeleteObjectsRequest, Object

    asked = DeleteObjectsRequest(quiet=True, objects=[Object(key=key) for key in keys])
    doing = f"deleting {len(keys)} objects of obs://{bucket}"
    for failed in sdk.call(
        doing, bucket, "", lambda client: client.deleteObjects(bucket, asked), "error"
    ).body.error:
        status = _STATUS_OF_CODE.get(failed.code, 400)
        raise error_of_status(f"deleting obs://{bucket}/{failed.key}", status, failed.code)


def put_by_sdk(sdk: ObsSdk, doing: str, bucket: str, key: str, body: Section, md5: str) -> Any:
    """The answer to an upload by one request, whose MD5 (hex) OBS verifies."""
    from obs import PutObjectHeader

    header = PutObjectHeader(contentLength=body.size, md5=base64_of_md5(md5))
    return sdk.call(
        doing,
        bucket,
        key,
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
        bucket,
        key,
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
        doing, bucket, key, lambda client: client.completeMultipartUpload(bucket, key, upload, request), "key"
    )
    return answer.body.etag or ""


def state_by_sdk(sdk: ObsSdk, doing: str, bucket: str, key: str) -> ObjectState:
    """The state of an object behind a proxy. Raises `NotFound`, and what `ObsSdk.call` raises."""
    answer = sdk.call(doing, bucket, key, partial(_head, bucket, key), "contentLength")
    headers = {name.lower().encode(): str(value).encode() for name, value in answer.header}
    headers[CRC64_HEADERS[0].encode()] = str(answer.body.crc64 or "").encode()  # the SDK drops the prefix
    return object_state(doing, checked_size(doing, answer.body.contentLength), headers)


def _head(bucket: str, key: str, sdk: Any) -> Any:
    """The answer to a HEAD. A refused one has no error code: a GET of one byte is refused with it."""
    from obs import GetObjectHeader

    answer = sdk.getObjectMetadata(bucket, key)
    if answer.status not in (401, 403) or answer.errorCode:
        return answer
    asked = sdk.getObject(bucket, key, loadStreamInMemory=False, headers=GetObjectHeader(range="0-0"))
    if asked.status >= 300:
        return asked
    asked.body.response.close()  # it may be the whole object
    return answer
