"""Rare operations by Huawei's SDK, esdk-obs-python; converts its answers and exceptions to `StoreError`.

The guards are for faults of version 3.26: HTTP errors are returned but network errors raised, some as a bare
`Exception`; by default TLS is not verified, and the host name never is.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable
from urllib.parse import urlsplit

from path_mapping.errors import Corrupted, PathMappingError, Refused, Unreachable
from path_mapping.stores.access import MOST_REDIRECTS, REDIRECTS, Credentials, bucket_in_path, is_untrusted
from path_mapping.stores.responses import error_of_status
from path_mapping.stores.signer import Signer, server_of

if TYPE_CHECKING:
    from obs import ObsClient

# HTTP statuses of error codes: a bulk deletion reports only the code of each object.
_STATUS_OF_CODE = {"AccessDenied": 403, "InternalError": 500, "ServiceUnavailable": 503}


class ObsSdk:
    """Clients of the SDK; create it after a fork. A refused call is repeated once with new credentials.

    The first call imports the SDK, which takes 0.13 s.
    """

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        # By endpoint.
        self._clients: dict[str, Any] = {}
        # The credentials of the clients.
        self._keys = signer.access.credentials
        self._lock = threading.Lock()

    def _current(self, bucket: str) -> ObsClient:
        """Returns the client for a bucket, with the current credentials."""
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

        access = self._signer.access
        proxy = access.proxy
        client = ObsClient(
            access_key_id=keys.access_key,
            secret_access_key=keys.secret_key,
            security_token=keys.token,
            server=endpoint,
            path_style=bucket_in_path(urlsplit(endpoint).hostname or ""),
            max_retry_count=0,  # `workers.retry` does the retries
            max_redirect_count=0,  # the SDK would send the credentials to any host
            timeout=access.timeout,
            proxy_host=proxy and proxy.host,
            proxy_port=proxy and proxy.port,
            proxy_username=proxy and proxy.user,
            proxy_password=proxy and proxy.password,
        )
        # The SDK's own context verifies nothing, or only the chain.
        client.context = self._signer.context
        host = urlsplit(endpoint).hostname or ""
        if ":" in host:
            _accept_ipv6(client, host, urlsplit(endpoint).port)
        return client

    def call(
        self, doing: str, bucket: str, key: str, request: Callable[[ObsClient], Any], *fields: str
    ) -> Any:
        """Calls the SDK for an object or a bucket; `doing` names the operation in errors.

        The SDK returns a body that it cannot parse without some of its `fields`: these must exist.

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
        answer = self._guarded(doing, lambda: request(self._current(bucket)))
        for _ in range(MOST_REDIRECTS):
            location = dict(answer.header or ()).get("location")
            if answer.status not in REDIRECTS or not location:
                break
            self._signer.follow(doing, answer.status, bucket, key, location)
            answer = self._guarded(doing, lambda: request(self._current(bucket)))
        if answer.status >= 300:
            raise error_of_status(doing, answer.status, answer.errorCode)
        return answer

    def _guarded(self, doing: str, request: Callable[[], Any]) -> Any:
        """Runs the request; errors of the SDK become `Unreachable`, or `Refused` for a certificate."""
        try:
            return request()
        except PathMappingError:  # of the credentials or the endpoint
            raise
        except Exception as error:
            host = server_of(self._signer.access.endpoint)
            kind = Refused if is_untrusted(error) else Unreachable
            raise kind(f"{doing} at {host}: {type(error).__name__}: {error}") from error


def _accept_ipv6(client: ObsClient, host: str, port: int | None) -> None:
    """Makes the SDK use an IPv6 address, which it would cut at its first colon."""
    client.server, client.port = f"[{host}]", port or client.port
    connect = client._get_server_connection_use_http1x
    client._get_server_connection_use_http1x = lambda secure, server, *rest: connect(secure, host, *rest)


def seconds_of(text: Any) -> float:
    """Converts a local time of the SDK, `2024/01/31 23:59:59`, to seconds since the epoch; 0 if invalid."""
    try:
        return datetime.strptime(str(text), "%Y/%m/%d %H:%M:%S").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def delete_by_sdk(sdk: ObsSdk, bucket: str, keys: Sequence[str]) -> None:
    """Deletes objects by one request, whose answer names only the objects that were not deleted."""
    from obs import DeleteObjectsRequest, Object

    asked = DeleteObjectsRequest(quiet=True, objects=[Object(key=key) for key in keys])
    doing = f"deleting {len(keys)} objects of obs://{bucket}"
    for failed in sdk.call(
        doing, bucket, "", lambda client: client.deleteObjects(bucket, asked), "error"
    ).body.error:
        status = _STATUS_OF_CODE.get(failed.code, 400)
        raise error_of_status(f"deleting obs://{bucket}/{failed.key}", status, failed.code)
