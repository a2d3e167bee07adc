"""Huawei's SDK, esdk-obs-python: its clients, their answers and exceptions as ours, and signed URLs.

What is guarded against was observed with version 3.26: HTTP errors are returned but network errors raised,
some as a bare `Exception`; by default TLS is not verified, and the host name never is.
"""

from __future__ import annotations

import dataclasses
import logging
import ssl
import threading
import time
from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple
from urllib.parse import urlsplit

import certifi
from obs import ObsClient

from path_mapping.errors import Corrupted, CredentialsMissing, Expired, PathMappingError, Refused, Unreachable
from path_mapping.localfs import CHUNK
from path_mapping.stores.access import address_of, bucket_in_path, verifying
from path_mapping.stores.store import Access, Credentials, Pause
from path_mapping.wire import Origin, error_of_status

SIGNED_SECONDS = 900  # a signed URL is used at once, but clocks differ
LOOK_SECONDS = 0.2  # between two looks for new credentials


EXPIRED = "OBS refused the credentials as expired; waiting up to {:g} s for new ones{}"


def warned(text: str) -> None:
    """Logs a warning, where nobody else wants to know."""
    logging.getLogger("path_mapping").warning(text)


class ObsSdk:
    """The SDK for one endpoint; create it after a fork. A failed call is retried only with new credentials.

    The bucket is a subdomain of the endpoint, as OBS wants it; with an IP address (a test server) it is in
    the path. `renew` returns the newest credentials, which may come up to `patience` seconds after the
    current ones have expired, for which `announce` is told once; `proxy` is a URL.

    Raises:
        CredentialsMissing: the endpoint is not a URL, or the CA bundle cannot be read.
    """

    def __init__(
        self,
        access: Access,
        renew: Optional[Callable[[], Credentials]] = None,
        proxy: Optional[str] = None,
        patience: float = 0.0,
        announce: Callable[[str], None] = warned,
    ) -> None:
        address = address_of(access.endpoint)
        self.access = dataclasses.replace(access, endpoint=f"{address.scheme}://{address.netloc}")
        self.proxy = urlsplit(proxy) if proxy else None
        self._renew, self._patience, self._announce = renew, patience, announce
        self._until = 0.0  # how long new credentials are waited for, after the current ones were refused
        self._secure = address.scheme == "https"
        self._in_path = bucket_in_path(address.hostname or "")
        # The SDK's own context verifies nothing, or only the chain.
        self.context = verifying(access.bundle or certifi.where()) if self._secure else None
        self._client = self._new_client()
        self._signers: Dict[str, ObsClient] = {}
        self._lock = threading.RLock()  # for the credentials, and the clients that must all have the same
        self._negotiating = threading.Lock()

    def _new_client(self, **settings: Any) -> ObsClient:
        keys, proxy = self.access.credentials, self.proxy
        client = ObsClient(
            access_key_id=keys.access_key,
            secret_access_key=keys.secret_key,
            security_token=keys.token,
            server=self.access.endpoint,
            path_style=self._in_path,
            max_retry_count=0,  # `workers.retry` does the retries
            timeout=self.access.timeout,
            chunk_size=CHUNK,
            proxy_host=proxy and proxy.hostname,
            proxy_port=proxy and (proxy.port or 80),
            proxy_username=proxy and proxy.username,
            proxy_password=proxy and proxy.password,
            **settings,
        )
        client.context = self.context
        host = urlsplit(self.access.endpoint).hostname or ""
        if ":" in host:
            _accept_ipv6(client, host, urlsplit(self.access.endpoint).port)
        return client

    def use(self, keys: Credentials) -> None:
        """Signs with these credentials from now on."""
        with self._lock:
            self.access = dataclasses.replace(self.access, credentials=keys)
            self._until = 0.0
            for client in (self._client, *self._signers.values()):
                client.refresh(keys.access_key, keys.secret_key, keys.token)

    def renewed(self, used: Credentials, pause: Optional[Pause] = None) -> bool:
        """See `SignedAccess.renewed`. The time of the wait is that of all threads together."""
        while True:
            with self._lock:  # several threads are refused at the same time
                problem = self._look(used)
                if self.access.credentials != used:
                    return True
                if pause is None or self._renew is None:
                    return False
                if not self._until and self._patience:
                    said = f" ({problem})" if problem else ""
                    self._announce(EXPIRED.format(self._patience, said))
                self._until = self._until or time.monotonic() + self._patience
                left = self._until - time.monotonic()
            if left <= 0 or pause(min(LOOK_SECONDS, left)):
                return False

    def _look(self, used: Credentials) -> str:
        """Takes the newest credentials, if they are not `used`; returns what was wrong with their source."""
        if self._renew is None or self.access.credentials != used:
            return ""
        try:
            newest = self._renew()
        except CredentialsMissing as error:  # it is being replaced
            return str(error)
        if newest != used:
            self.use(newest)
        return ""

    def call(self, doing: str, request: Callable[[ObsClient], Any], *fields: str) -> Any:
        """The SDK's answer to a request; `doing` names the operation in errors.

        The SDK returns a body that it cannot parse without some of its `fields`: those must be there.

        Raises:
            StoreError: by the status of the answer, see `error_of_status`.
            Unreachable: the network failed, or the response is damaged.
        """
        used = self.access.credentials
        try:
            answer = self._good(doing, request)
        except Refused:
            if not self.renewed(used):
                raise
            answer = self._good(doing, request)
        for field in fields:
            if getattr(answer.body, field, None) is None:
                raise Corrupted(f"{doing}: the response is damaged, it has no {field}")
        return answer

    def _good(self, doing: str, request: Callable[[ObsClient], Any]) -> Any:
        used = self.access.credentials
        answer = self.guarded(doing, lambda: request(self._client))
        if answer.status >= 300:
            error = error_of_status(doing, answer.status, answer.errorCode)
            if isinstance(error, Expired) and self._patience:
                error.wait = partial(self.renewed, used)
            raise error
        return answer

    def guarded(self, doing: str, request: Callable[[], Any]) -> Any:
        """Runs the request; what the SDK raises becomes `Unreachable`, or `Refused` for a certificate."""
        try:
            return request()
        except PathMappingError:  # raised by a callback, not by the SDK
            raise
        except Exception as error:
            host = self.access.endpoint.rpartition("@")[2].rpartition("/")[2]
            kind = Refused if isinstance(error, ssl.SSLCertVerificationError) else Unreachable
            raise kind(f"{doing} at {host}: {type(error).__name__}: {error}") from error

    def sign(
        self, method: str, bucket: str, key: str, query: Dict[str, str], headers: Dict[str, str]
    ) -> Tuple[Origin, str, Dict[str, str]]:
        """A request that OBS accepts: its origin, the path with the query, and the headers to send.

        Signed by the SDK's `createSignedUrl`, with a client for each bucket.

        Raises:
            StoreError: the bucket's kind of signature could not be queried.
        """
        signer = self._signers.get(bucket)
        if signer is None:
            with self._negotiating:
                signer = self._signers.get(bucket) or self._add_signer(bucket)
        signed = signer.createSignedUrl(
            method, bucket, key, expires=SIGNED_SECONDS, headers=headers, queryParams=query
        )
        name, _, port = signed.actualSignedRequestHeaders["Host"].rpartition(":")
        if not name or port.endswith("]"):  # there is no port
            name, port = signed.actualSignedRequestHeaders["Host"], ""
        url = signed.signedUrl
        path = url[url.index("/", url.index("//") + 2) :]
        origin = Origin(name.strip("[]"), int(port or (443 if self._secure else 80)), self._secure)
        return origin, path, signed.actualSignedRequestHeaders

    def _add_signer(self, bucket: str) -> ObsClient:
        """Adds a client with the bucket's kind of signature, that of OBS or of S3.

        The SDK's other calls negotiate it; `createSignedUrl` does not, so it is queried here, once.
        """
        if self._in_path:
            return self._signers.setdefault(bucket, self._client)  # the SDK always uses S3's then
        doing = f"querying the signature of obs://{bucket}"
        kind, answer = self.guarded(doing, lambda: self._client._getApiVersion(bucket))
        if not kind:
            raise error_of_status(doing, answer.status, answer.errorCode)
        with self._lock:  # the credentials may be renewed meanwhile
            signer = self._new_client(signature=kind, is_signature_negotiation=False)
            self._signers[bucket] = signer
            return signer


def _accept_ipv6(client: ObsClient, host: str, port: Optional[int]) -> None:
    """Has the SDK use an IPv6 address, which it cuts at its first colon: with brackets, but to connect."""
    client.server, client.port = f"[{host}]", port or client.port
    connect = client._get_server_connection_use_http1x
    client._get_server_connection_use_http1x = lambda secure, server, *rest: connect(secure, host, *rest)
