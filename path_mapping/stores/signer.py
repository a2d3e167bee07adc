"""Signs requests to one endpoint, with credentials that may be renewed meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from typing import Callable, Dict, Optional, TypeVar
from urllib.parse import SplitResult, urlsplit

from path_mapping.errors import CredentialsMissing, Expired, Refused, Rejected
from path_mapping.localfs import printable
from path_mapping.wire import (
    OBS,
    S3,
    Access,
    BucketAddress,
    Credentials,
    Origin,
    Pause,
    SignatureKind,
    SignedRequest,
    address_of,
    bucket_in_path,
    redirected,
    signed,
    verifying,
)

LONGEST_SHOWN = 200  # characters of a place in an error
LOOK_SECONDS = 0.2  # between two looks for new credentials
EXPIRED = "OBS refused the credentials as expired; waiting up to {:g} s for new ones{}"

Result = TypeVar("Result")


def warned(text: str) -> None:
    """Logs a warning, where nobody else wants to know."""
    logging.getLogger("path_mapping").warning(text)


class Signer:
    """The endpoint, the bundle of CAs and the credentials of all requests of a process.

    The bucket is a subdomain of the endpoint, as OBS wants it; with an IP address (a test server) it is in
    the path. `renew` returns the newest credentials, which may come up to `patience` seconds after the
    current ones have expired, for which `announce` is told once.

    Raises:
        CredentialsMissing: the endpoint is not a URL, or the CA bundle cannot be read.
    """

    def __init__(
        self,
        access: Access,
        renew: Optional[Callable[[], Credentials]] = None,
        patience: float = 0.0,
        announce: Callable[[str], None] = warned,
    ) -> None:
        address = address_of(access.endpoint)
        self.access = access._replace(endpoint=f"{address.scheme}://{address.netloc}")
        self._moved: Dict[str, SplitResult] = {}  # by bucket: the endpoint to which a redirect led
        self._address = address
        self.patience = patience
        self._renew, self._announce = renew, announce
        self._until = 0.0  # how long new credentials are waited for, after the current ones were refused
        self.context = verifying(access.bundle) if address.scheme == "https" else None
        self._buckets: Dict[str, BucketAddress] = {}
        self._lock = threading.RLock()  # for the credentials
        self.asking = threading.Lock()  # held while the service is asked for a bucket's kind of signature

    def renewed(self, used: Credentials, pause: Optional[Pause] = None) -> bool:
        """True if there are other credentials than `used`, with which a request was refused.

        With `pause` they may be late: then this waits, or until `pause` returns True. The time of the wait is
        that of all threads together.
        """
        while True:
            with self._lock:  # several threads are refused at the same time
                problem = self._look(used)
                if self.access.credentials != used:
                    return True
                if pause is None or self._renew is None:
                    return False
                if not self._until and self.patience:
                    said = f" ({problem})" if problem else ""
                    self._announce(EXPIRED.format(self.patience, said))
                self._until = self._until or time.monotonic() + self.patience
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
            self.access = self.access._replace(credentials=newest)
            self._until = 0.0
        return ""

    def with_newest(self, attempt: Callable[[], Result]) -> Result:
        """Runs a request, and once more if it was refused and there are newer credentials.

        One that is refused as expired carries what waits for new ones.
        """
        used = self.access.credentials
        try:
            return self._attempted(attempt)
        except Refused:
            if not self.renewed(used):
                raise
            return self._attempted(attempt)

    def _attempted(self, attempt: Callable[[], Result]) -> Result:
        used = self.access.credentials
        try:
            return attempt()
        except Expired as error:
            if self.patience:
                error.wait = partial(self.renewed, used)
            raise

    def bucket(self, bucket: str) -> Optional[BucketAddress]:
        """Where a bucket is; None as long as its kind of signature is not known: `learn` has to be called."""
        if bucket not in self._buckets and bucket_in_path(self._endpoint(bucket).hostname or ""):
            self.learn(bucket, S3)  # as the SDK does
        return self._buckets.get(bucket)

    def learn(self, bucket: str, kind: SignatureKind) -> BucketAddress:
        """Takes note of the kind of signature of a bucket: that of OBS, or of S3."""
        return self._buckets.setdefault(bucket, self.address(bucket, kind))

    def address(self, bucket: str, kind: SignatureKind = OBS) -> BucketAddress:
        """The address of a bucket with this kind of signature."""
        endpoint = self._endpoint(bucket)
        secure, host = endpoint.scheme == "https", endpoint.hostname or ""
        port, in_path = endpoint.port or (443 if secure else 80), bucket_in_path(host)
        host = host if in_path else f"{bucket}.{host}"
        shown = f"[{host}]" if ":" in host else host
        origin = Origin(host, port, secure)
        return BucketAddress(bucket, origin, shown if port in (80, 443) else f"{shown}:{port}", in_path, kind)

    def _endpoint(self, bucket: str) -> SplitResult:
        return self._moved.get(bucket, self._address)

    def endpoint(self, bucket: str) -> str:
        """The URL of the endpoint that has the bucket."""
        found = self._endpoint(bucket)
        return f"{found.scheme}://{found.netloc}"

    def follow(self, doing: str, status: int, bucket: str, key: str, location: str) -> None:
        """Takes note of the endpoint to which a redirect leads: requests to the bucket go there from now on.

        Raises:
            Rejected: our credentials must not go there.
        """
        with self._lock:
            try:
                there = redirected(self._endpoint(bucket), bucket, key, location)
            except ValueError as error:
                place = printable(location.partition("?")[0][:LONGEST_SHOWN])
                raise Rejected(f"{doing}: HTTP {status} to {place} is not followed: {error}") from error
            if there.scheme == "https" and self.context is None:
                self.context = verifying(self.access.bundle)
            self._moved[bucket] = there
            known = self._buckets.pop(bucket, None)
            if known is not None:
                self.learn(bucket, known.kind)

    def sign(
        self, address: BucketAddress, method: str, key: str, query: Dict[str, str], headers: Dict[str, str]
    ) -> SignedRequest:
        """A request with the current credentials."""
        return signed(address, self.access.credentials, method, key, query, headers)


def server_of(endpoint: str) -> str:
    """The server of an endpoint, as errors name it."""
    return urlsplit(endpoint).netloc.rpartition("@")[2]
