"""Verifies signatures as of OBS and of S3's versions 2 and 4, in headers and in signed URLs. Pure.

Sources: OBS API reference, "User Signature Authentication"; S3 API reference, "Authenticating Requests".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from ma_boot.desk.rehearsal.obs_server.buckets import Refusal
from ma_boot.desk.rehearsal.obs_server.request import HttpRequest

SKEW_SECONDS = 15 * 60
UNSIGNED = "UNSIGNED-PAYLOAD"
SCHEMES = {"OBS": "x-obs-", "AWS": "x-amz-"}  # the prefix of headers by the scheme of Authorization
SIGNED_PARAMETERS = frozenset(
    """
    acl append backtosource bucketstatus cors delete deletebucket directcoldaccess dispolicy encryption
    fileinterface inventory length lifecycle location logging metadata modify name notification object-lock
    obsalias obsbucketalias obscompresspolicy obsworkflowtriggerpolicy partnumber policy policystatus
    position publicaccessblock quota rename replication requestpayment response-cache-control
    response-content-disposition response-content-encoding response-content-language response-content-type
    response-expires restore retention storageclass storageinfo storagepolicy tagging torrent truncate
    uploadid uploads versionid versioning versions website x-image-process x-image-save-bucket
    x-image-save-object x-obs-accesslabel x-oss-process x-workflow-execution-state x-workflow-execution-type
    x-workflow-graph-name x-workflow-limit x-workflow-next-marker x-workflow-prefix x-workflow-start
    x-workflow-template-name
    """.split()  # noqa: SIM905 -- one name per line would fill a page
)


@dataclass(frozen=True)
class KeyPair:
    """Keys that may sign; temporary ones have a token, and expire at `expires` (seconds since the epoch)."""

    access_key: str
    secret_key: str
    token: str | None = None
    expires: float | None = None

    def __repr__(self) -> str:
        return "KeyPair(...)"


@dataclass(frozen=True)
class _Claim:
    """A signature and what it claims to cover.

    `prefix` begins the dialect's headers, `date` is the signed date; `scope` and `signed` (names of headers)
    are only in V4.
    """

    prefix: str
    access_key: str
    signature: str
    date: str = ""
    in_url: bool = False
    scope: str = ""
    signed: tuple[str, ...] = ()


def verify(request: HttpRequest, bucket_in_host: str, known: Sequence[KeyPair], now: float) -> None:
    """Raises `Refusal` unless one of the known keys signed the request, and has not expired."""
    claim = _claim(request, now)
    ours = [pair for pair in known if pair.access_key == claim.access_key]
    if not ours:
        raise Refusal("InvalidAccessKeyId", "no such access key")
    name = f"{claim.prefix}security-token"
    parameters = {name.lower(): value for name, value in request.parameters.items()} if claim.in_url else {}
    token = parameters.get(name) or request.headers.get(name)
    with_token = [pair for pair in ours if pair.token == token]
    if not with_token:
        raise Refusal("InvalidToken", "the security token does not belong to the access key")
    if all(pair.expires is not None and pair.expires <= now for pair in with_token):
        raise Refusal("ExpiredToken", "the security token has expired")
    for pair in with_token:
        expected = (_v4 if claim.scope else _v2)(request, bucket_in_host, claim, pair.secret_key)
        if hmac.compare_digest(expected.encode(), claim.signature.encode()):
            return
    raise Refusal("SignatureDoesNotMatch", "the signature does not match the request and the key")


def _claim(request: HttpRequest, now: float) -> _Claim:
    authorization = request.headers.get("authorization", "")
    scheme, _, rest = authorization.partition(" ")
    if scheme in SCHEMES and ":" in rest:
        access_key, _, signature = rest.rpartition(":")
        return _Claim(SCHEMES[scheme], access_key, signature, _signed_date(request, SCHEMES[scheme], now))
    if scheme == "AWS4-HMAC-SHA256":
        return _claim_of_v4(request, rest, now)
    parameters = request.parameters
    if "X-Amz-Signature" in parameters:
        return _claim_of_v4_url(parameters, now)
    for name, prefix in (("AccessKeyId", "x-obs-"), ("AWSAccessKeyId", "x-amz-")):
        access_key, signature = parameters.get(name) or "", parameters.get("Signature") or ""
        expires = parameters.get("Expires") or ""
        if access_key and signature and expires.isdecimal():
            if int(expires) < now:
                raise Refusal("AccessDenied", "the signed URL has expired")
            return _Claim(prefix, access_key, signature, expires, in_url=True)
    raise Refusal("AccessDenied", "the request is not signed")


def _signed_date(request: HttpRequest, prefix: str, now: float) -> str:
    """The date that OBS and V2 sign: empty if a header of the dialect has it."""
    own = request.headers.get(f"{prefix}date")
    date = request.headers.get("date", "")
    try:
        signed_at = parsedate_to_datetime(own or date).timestamp()
    except (TypeError, ValueError):
        raise Refusal("AccessDenied", "the request has no valid date") from None
    _check_skew(signed_at, now)
    return "" if own else date


def _check_skew(signed_at: float, now: float) -> None:
    if abs(signed_at - now) > SKEW_SECONDS:
        raise Refusal("RequestTimeTooSkewed", "the request's time differs too much from the server's")


def _claim_of_v4(request: HttpRequest, rest: str, now: float) -> _Claim:
    fields = dict(item.strip().partition("=")[::2] for item in rest.split(","))
    stamp = request.headers.get("x-amz-date", "")
    _check_skew(_seconds(stamp), now)
    return _v4_claim(fields.get("Credential"), fields.get("SignedHeaders"), fields.get("Signature"), stamp)


def _claim_of_v4_url(parameters: dict[str, str | None], now: float) -> _Claim:
    stamp, lasts = parameters.get("X-Amz-Date") or "", parameters.get("X-Amz-Expires") or ""
    if not lasts.isdecimal() or _seconds(stamp) + int(lasts) < now:
        raise Refusal("AccessDenied", "the signed URL has expired")
    credential, signed = parameters.get("X-Amz-Credential"), parameters.get("X-Amz-SignedHeaders")
    return _v4_claim(credential, signed, parameters["X-Amz-Signature"], stamp, in_url=True)


def _v4_claim(
    credential: str | None, names: str | None, signature: str | None, date: str, in_url: bool = False
) -> _Claim:
    access_key, _, scope = (credential or "").partition("/")
    if scope.count("/") != 3 or not names or not signature:
        raise Refusal("AccessDenied", "the V4 signature is incomplete")
    return _Claim(
        "x-amz-", access_key, signature, date=date, in_url=in_url, scope=scope, signed=tuple(names.split(";"))
    )


def _seconds(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        raise Refusal("AccessDenied", "expected x-amz-date with a V4 signature") from None


def _v2(request: HttpRequest, bucket_in_host: str, claim: _Claim, secret: str) -> str:
    """The signature of OBS, and of version 2 of S3: they differ only in the prefix of the headers."""
    headers = request.headers
    lines = [request.method, headers.get("content-md5", ""), headers.get("content-type", ""), claim.date]
    lines += [f"{name}:{headers[name]}" for name in sorted(headers) if name.startswith(claim.prefix)]
    lines.append(_resource(request, bucket_in_host, claim.prefix))
    digest = hmac.new(secret.encode(), "\n".join(lines).encode(), hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def _resource(request: HttpRequest, bucket_in_host: str, prefix: str) -> str:
    path = f"/{bucket_in_host}{request.path}" if bucket_in_host else request.path
    signed: list[str] = []
    for name, value in sorted(request.parameters.items()):
        if name.lower() in SIGNED_PARAMETERS or name.lower().startswith(prefix):
            signed.append(quote(name) if value is None else f"{quote(name)}={value}")
    return f"{path}?{'&'.join(signed)}" if signed else path


def _v4(request: HttpRequest, bucket_in_host: str, claim: _Claim, secret: str) -> str:
    query = sorted(
        (quote(name, safe=""), quote(value or "", safe=""))
        for name, value in request.parameters.items()
        if not (claim.in_url and name == "X-Amz-Signature")
    )
    payload = UNSIGNED if claim.in_url else request.headers.get("x-amz-content-sha256", UNSIGNED)
    canonical = [
        request.method,
        quote(unquote_to_bytes(request.path), safe="/~"),
        "&".join(f"{name}={value}" for name, value in query),
        *(f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in claim.signed),
        "",
        ";".join(claim.signed),
        payload,
    ]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{claim.date}\n{claim.scope}\n{digest}"
    return hmac.new(_v4_key(secret, claim.scope), to_sign.encode(), hashlib.sha256).hexdigest()


@lru_cache(maxsize=64)
def _v4_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for word in scope.split("/"):  # date, region, service, "aws4_request"
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key
