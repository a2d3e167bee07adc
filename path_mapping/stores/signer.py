"""Signs requests to one endpoint, with credentials that may be renewed meanwhile.

OBS API reference, "Authentication of Signature in a Header"; version 2 of S3 differs in two words. The SDK's
own signature takes 0.02 ms for each request, and 0.13 s to import in each process.
"""

from __future__ import annotations

import binascii
import hmac
import re
import threading
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Callable, NamedTuple, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from path_mapping.errors import CredentialsMissing, Expired, Refused, Rejected, printable
from path_mapping.stores.access import (
    Access,
    Credentials,
    Pause,
    address_of,
    bucket_in_path,
    create_tls_context,
    endpoint_without_bucket,
    redirect_target,
)
from path_mapping.stores.http_connection import Origin

# Parameters of our requests that the signature covers, in this order.
SIGNED_QUERY = ("partNumber", "uploadId", "uploads")
# Control characters, and characters that are not in Latin-1: they would end or damage the head of a request.
_UNSENDABLE = re.compile(r"[^ -~\x80-\xff]")
_SENDABLE = bytes((*range(0x20, 0x7F), *range(0x80, 0x100)))
# Characters of a key that are not escaped.
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/"
_NAME = re.compile(r"[A-Za-z0-9-]+")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class SignatureKind(NamedTuple):
    """Kind of signature: its name, and the prefix of the headers that it covers."""

    scheme: str
    prefix: str


OBS = SignatureKind("OBS", "x-obs-")
S3 = SignatureKind("AWS", "x-amz-")


class BucketAddress(NamedTuple):
    """Server and signature of requests for a bucket. `host` is the value of the Host header."""

    bucket: str
    origin: Origin
    host: str
    in_path: bool
    kind: SignatureKind


def request_head(doing: str, method: str, path: str, headers: Mapping[str, str]) -> bytes:
    """Returns the head of a request.

    Raises `Rejected` for a header or path with characters that would end it or cannot be sent. The message
    does not have the value, which may be a secret.
    """
    lines = [f"{method} {path} HTTP/1.1", *map(": ".join, headers.items())]
    # Not a regular expression: it takes as long as the signature.
    if not is_sendable("".join(lines)) or " " in path or not all(map(_is_name, headers)):
        raise Rejected(f"{doing}: not sent: {_unsendable(path, headers)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def is_sendable(text: str) -> bool:
    """Tells whether all characters may be in the head of a request."""
    try:
        return not text.encode("latin-1").translate(None, _SENDABLE)
    except UnicodeEncodeError:
        return False


@lru_cache(maxsize=64)
def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def _unsendable(path: str, headers: Mapping[str, str]) -> str:
    """Describes the problem of a head."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            return f"found the header {name!r}, expected letters, digits and '-' in its name"
        wrong = _UNSENDABLE.search(value)
        if wrong:
            return f"the header {name} has the character {wrong[0]!r}, expected no control characters"
    return f"found the path {path!r}, expected no blanks and no control characters"


def sign_request(
    address: BucketAddress,
    keys: Credentials,
    method: str,
    key: str,
    query: dict[str, str],
    headers: dict[str, str],
) -> tuple[str, dict[str, str]]:
    """Returns path and headers of a signed request for an object, or for a bucket if the key is empty.

    The path includes the query. Of `headers` the signature covers Content-MD5.
    """
    plain = key.isascii() and not key.encode().translate(None, _PLAIN)
    quoted, kind = key if plain else quote(key, safe="/~"), address.kind
    resource = f"/{address.bucket}/{quoted}"
    if address.in_path:
        path = resource = resource if key else f"/{address.bucket}"
    else:
        path = f"/{quoted}"
    if query:
        path += "?" + "&".join(_parameter(name, quote(query[name], safe="~")) for name in query)
        covered = [_parameter(name, query[name]) for name in SIGNED_QUERY if name in query]
        resource += "?" + "&".join(covered) if covered else ""
    date, token = _date(int(time.time())), f"{kind.prefix}security-token"
    covered_token = f"{token}:{keys.token}\n" if keys.token else ""
    text = f"{method}\n{headers.get('Content-MD5', '')}\n\n{date}\n{covered_token}{resource}"
    digest = _keyed(keys.secret_key).copy()
    digest.update(text.encode())
    signature = binascii.b2a_base64(digest.digest(), newline=False).decode("ascii")
    authorization = f"{kind.scheme} {keys.access_key}:{signature}"
    signed_headers = {"Host": address.host, "Date": date, "Authorization": authorization, **headers}
    if keys.token:
        signed_headers[token] = keys.token
    return path, signed_headers


@lru_cache(maxsize=4)
def _keyed(secret: str) -> hmac.HMAC:
    """Returns the HMAC of nothing: a copy of it costs less than the key again."""
    return hmac.new(secret.encode(), digestmod="sha1")


def _parameter(name: str, value: str) -> str:
    """`name=value`, or the name alone."""
    return f"{name}={value}" if value else name


@lru_cache(maxsize=4)
def _date(seconds: int) -> str:
    """Returns the time as in the Date header. Not by `strftime`, whose names depend on the locale."""
    year, month, day, hour, minute, second, weekday = time.gmtime(seconds)[:7]
    date = f"{_DAYS[weekday]}, {day:02} {_MONTHS[month - 1]} {year}"
    return f"{date} {hour:02}:{minute:02}:{second:02} GMT"


# Characters of a redirect's target in an error.
LONGEST_SHOWN = 200
# Seconds between two attempts to get new credentials.
POLL_SECONDS = 0.2
EXPIRED = "OBS refused the credentials as expired; waiting up to {:g} s for new ones{}"

Result = TypeVar("Result")


def log_warning(text: str) -> None:
    """Logs a warning: the default of `announce`."""
    import logging  # slow to import

    logging.getLogger("path_mapping").warning(text)


class Signer:
    """Endpoint, CA bundle and credentials of all requests of a process.

    The bucket is a subdomain of the endpoint, as OBS requires; with an IP address (a test server) it is in
    the path. `renew` returns the newest credentials, which may come up to `patience` seconds after the
    current ones have expired; `announce` is called with a message when that wait begins. Raises
    `CredentialsMissing` if the endpoint is not a URL, or the CA bundle cannot be read.
    """

    def __init__(
        self,
        access: Access,
        renew: Callable[[], Credentials] | None = None,
        patience: float = 0.0,
        announce: Callable[[str], None] = log_warning,
    ) -> None:
        address = address_of(access.endpoint)
        self.access = access._replace(endpoint=f"{address.scheme}://{address.netloc}")
        # By bucket: the endpoint to which a redirect led.
        self._moved: dict[str, SplitResult] = {}
        self._address = address
        self.patience = patience
        self._renew, self._announce = renew, announce
        # End of the wait for new credentials, in seconds of `time.monotonic`; 0 before they are needed.
        self._until = 0.0
        self.context = create_tls_context(access.bundle) if address.scheme == "https" else None
        self._buckets: dict[str, BucketAddress] = {}
        # Guards the credentials and the buckets.
        self._lock = threading.RLock()
        # Held during the request for a bucket's kind of signature, so that it is made once.
        self.asking = threading.Lock()

    def renewed(self, used: Credentials, pause: Pause | None = None) -> bool:
        """Tells whether there are other credentials than `used`, with which a request was refused.

        With `pause` this waits for late ones, until `pause` returns True or `patience` is over. All threads
        share one wait.
        """
        while True:
            with self._lock:  # several threads are refused at the same time
                problem = self._refresh(used)
                if self.access.credentials != used:
                    return True
                if pause is None or self._renew is None:
                    return False
                if not self._until and self.patience:
                    reason = f" ({problem})" if problem else ""
                    self._announce(EXPIRED.format(self.patience, reason))
                self._until = self._until or time.monotonic() + self.patience
                left = self._until - time.monotonic()
            if left <= 0 or pause(min(POLL_SECONDS, left)):
                return False

    def _refresh(self, used: Credentials) -> str:
        """Takes the newest credentials if they are not `used`; returns the problem of their source."""
        if self._renew is None or self.access.credentials != used:
            return ""
        try:
            newest = self._renew()
        except CredentialsMissing as error:  # the file is being replaced
            return str(error)
        if newest != used:
            self.access = self.access._replace(credentials=newest)
            self._until = 0.0
        return ""

    def with_newest(self, attempt: Callable[[], Result]) -> Result:
        """Runs a request, and once more if it was refused and there are newer credentials.

        An error for expired credentials gets the function that waits for new ones.
        """
        used = self.access.credentials
        try:
            return attempt()
        except Refused as error:
            if not self.renewed(used):
                self.note_wait(error, used)
                raise
        used = self.access.credentials
        try:
            return attempt()
        except Refused as error:
            self.note_wait(error, used)
            raise

    def note_wait(self, error: Refused, used: Credentials) -> None:
        """Gives an error for expired credentials the function that waits for others than `used`."""
        if self.patience and isinstance(error, Expired):
            error.wait = partial(self.renewed, used)

    def bucket(self, bucket: str) -> BucketAddress | None:
        """Returns the address of a bucket; None until `learn` has set its kind of signature."""
        if bucket not in self._buckets and bucket_in_path(self._endpoint(bucket).hostname or ""):
            # The SDK, too, uses the signature of S3 for IP addresses.
            self.learn(bucket, S3)
        return self._buckets.get(bucket)

    def learn(self, bucket: str, kind: SignatureKind) -> BucketAddress:
        """Sets the kind of signature of a bucket."""
        return self._buckets.setdefault(bucket, self.address(bucket, kind))

    def address(self, bucket: str, kind: SignatureKind = OBS) -> BucketAddress:
        """Returns the address of a bucket with this kind of signature."""
        endpoint = self._endpoint(bucket)
        secure, host = endpoint.scheme == "https", endpoint.hostname or ""
        port, in_path = endpoint.port or (443 if secure else 80), bucket_in_path(host)
        rest = "" if in_path else endpoint_without_bucket(host, bucket)
        if rest:
            raise Rejected(
                f"OBS_ENDPOINT begins with the bucket ({host}): write it without the bucket, {rest}"
            )
        host = host if in_path else f"{bucket}.{host}"
        shown = f"[{host}]" if ":" in host else host
        origin = Origin(host, port, secure)
        return BucketAddress(bucket, origin, shown if port in (80, 443) else f"{shown}:{port}", in_path, kind)

    def _endpoint(self, bucket: str) -> SplitResult:
        return self._moved.get(bucket, self._address)

    def endpoint(self, bucket: str) -> str:
        """Returns the URL of the endpoint that has the bucket."""
        url = self._endpoint(bucket)
        return f"{url.scheme}://{url.netloc}"

    def follow(self, doing: str, status: int, bucket: str, key: str, location: str) -> None:
        """Sends further requests for the bucket to the endpoint to which a redirect leads.

        Raises `Rejected` if the credentials must not go there.
        """
        with self._lock:
            try:
                target = redirect_target(self._endpoint(bucket), bucket, key, location)
            except ValueError as error:
                place = printable(location.partition("?")[0][:LONGEST_SHOWN])
                raise Rejected(f"{doing}: HTTP {status} to {place} is not followed: {error}") from error
            if target.scheme == "https" and self.context is None:
                self.context = create_tls_context(self.access.bundle)
            self._moved[bucket] = target
            known = self._buckets.pop(bucket, None)
            if known is not None:
                self.learn(bucket, known.kind)


def server_of(endpoint: str) -> str:
    """Returns the server of an endpoint, as errors name it."""
    return urlsplit(endpoint).netloc.rpartition("@")[2]
