"""Signatures: those of the SDK and of published examples are accepted, slightly different ones are not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from email.utils import formatdate
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st
from obs import ObsClient, auth, const, convertor

from ma_boot.desk.rehearsal.obs_server.buckets import Refusal
from ma_boot.desk.rehearsal.obs_server.request import HttpRequest
from ma_boot.desk.rehearsal.obs_server.signatures import SIGNED_PARAMETERS, KeyPair, verify

NOW = 1_780_000_000.0
KNOWN = [KeyPair("AK", "SECRET")]
DOMAIN = "obs.test.example"

KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
PARAMETERS = st.dictionaries(
    st.sampled_from(
        ["uploadId", "partNumber", "uploads", "acl", "prefix", "marker", "response-expires", "x y"]
    ),
    st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=10)),
    max_size=4,
)
HEADERS = st.dictionaries(
    st.sampled_from(["content-md5", "content-type", "{}meta-color", "{}acl", "range", "user-agent"]),
    VALUES,
    max_size=4,
)


def refused(
    request: HttpRequest, known: Sequence[KeyPair] = KNOWN, now: float = NOW, bucket: str = ""
) -> str:
    """The error code; empty if the request is accepted."""
    try:
        verify(request, bucket, known, now)
    except Refusal as refusal:
        return refusal.code
    return ""


def signed(
    signature: str, method: str, key: str, parameters: Any, headers: dict[str, str], path_style: bool
) -> HttpRequest:
    """A request that was signed by the SDK."""
    adapter = convertor.Adapter(signature)
    prefix = "x-obs-" if signature == "obs" else "x-amz-"
    sent = {name.format(prefix): value for name, value in headers.items()}
    sent["Date"] = formatdate(NOW, usegmt=True)
    if signature == "v4":
        moment = datetime.fromtimestamp(NOW, timezone.utc)
        stamp = f"{moment:%Y%m%dT%H%M%SZ}"
        sent["x-amz-date"] = stamp
        signer = auth.V4Authentication("AK", "SECRET", "region", stamp[:8], stamp, path_style, adapter)
    else:
        signer = auth.Authentication("AK", "SECRET", path_style, adapter, DOMAIN, False)
    sent["Authorization"] = signer.doAuth(method, "bucket", key, parameters, sent)["Authorization"]
    client = ObsClient("AK", "SECRET", server=f"http://{DOMAIN}", path_style=path_style)
    target = client.calling_format.get_url("bucket", key, parameters)
    return HttpRequest(method, target, {name.lower(): value for name, value in sent.items()})


@pytest.mark.parametrize("path_style", [True, False], ids=["path", "virtual"])
@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
@given(key=KEYS, parameters=PARAMETERS, headers=HEADERS)
def test_signatures_of_the_sdk_are_accepted(
    signature: str, path_style: bool, key: str, parameters: dict[str, str | None], headers: dict[str, str]
) -> None:
    request = signed(signature, "PUT", key, parameters, headers, path_style)
    bucket = "" if path_style else "bucket"
    assert refused(request, bucket=bucket) == ""
    changed = [
        HttpRequest("GET", request.target, request.headers),
        HttpRequest("PUT", "/x" + request.target, request.headers),
        HttpRequest("PUT", request.target, {**request.headers, "date": "", "x-amz-date": ""}),
    ]
    if "content-type" in request.headers:
        changed.append(
            HttpRequest("PUT", request.target, {**request.headers, "content-type": "another type"})
        )
    if parameters.get("uploadId") is not None:
        changed.append(HttpRequest("PUT", request.target.replace("uploadId=", "uploadId=1"), request.headers))
    assert all(refused(other, bucket=bucket) for other in changed)
    assert refused(request, [KeyPair("AK", "OTHER")], bucket=bucket) == "SignatureDoesNotMatch"
    assert refused(request, [KeyPair("OTHER", "SECRET")], bucket=bucket) == "InvalidAccessKeyId"


@pytest.mark.parametrize("signature", ["obs", "v2"])
def test_a_date_in_a_header_of_the_dialect_stands_for_the_other(signature: str) -> None:
    own = {"{}date": formatdate(NOW, usegmt=True)}
    request = signed(signature, "GET", "a", {}, own, True)
    assert refused(request) == ""
    assert refused(HttpRequest("GET", request.target, {**request.headers, "date": "another"})) == ""


@pytest.mark.parametrize("token", [None, "TO/KEN+=="])
@pytest.mark.parametrize("path_style", [True, False], ids=["path", "virtual"])
@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
@given(key=KEYS, parameters=PARAMETERS)
def test_the_urls_of_the_sdk_are_accepted_until_they_end(
    signature: str, path_style: bool, token: str | None, key: str, parameters: dict[str, str | None]
) -> None:
    client = ObsClient(
        "AK",
        "SECRET",
        security_token=token,
        server=f"http://{DOMAIN}",
        path_style=path_style,
        signature=signature,
        client_mode="workflow",
    )
    before = datetime.now(timezone.utc).timestamp()
    made = client.createSignedUrl("GET", "bucket", key, expires=60, queryParams=parameters)
    url = urlsplit(made.signedUrl)
    assert url.hostname is not None
    headers = {"host": url.hostname}
    request = HttpRequest("GET", f"{url.path}?{url.query}", headers)
    known, bucket = [KeyPair("AK", "SECRET", token)], "" if path_style else "bucket"
    assert refused(request, known, before, bucket) == ""
    assert refused(request, known, before + 65, bucket) == "AccessDenied"
    assert (
        refused(HttpRequest("PUT", request.target, headers), known, before, bucket) == "SignatureDoesNotMatch"
    )
    assert refused(request, [KeyPair("AK", "SECRET", "another")], before, bucket) == "InvalidToken"


def test_the_parameters_that_are_signed_are_the_sdks() -> None:
    assert frozenset(const.ALLOWED_RESOURCE_PARAMTER_NAMES) == SIGNED_PARAMETERS


EXAMPLE = [KeyPair("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")]
MAY_2013 = datetime(2013, 5, 24, tzinfo=timezone.utc).timestamp()
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_the_example_of_the_s3_reference_for_v4() -> None:
    headers = {
        "host": "examplebucket.s3.amazonaws.com",
        "range": "bytes=0-9",
        "x-amz-content-sha256": EMPTY,
        "x-amz-date": "20130524T000000Z",
        "authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    }
    assert refused(HttpRequest("GET", "/test.txt", headers), EXAMPLE, MAY_2013, "examplebucket") == ""


@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
def test_a_clock_that_is_wrong(signature: str) -> None:
    request = signed(signature, "GET", "a", {}, {}, True)
    assert refused(request, now=NOW + 14 * 60) == ""
    assert refused(request, now=NOW + 16 * 60) == "RequestTimeTooSkewed"
    assert refused(request, now=NOW - 16 * 60) == "RequestTimeTooSkewed"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "OBS"},
        {"authorization": "OBS AK"},
        {"authorization": "OBS AK:x"},
        {"authorization": "OBS AK:x", "date": "yesterday"},
        {"authorization": "AWS4-HMAC-SHA256 Credential=AK"},
        {"authorization": "AWS4-HMAC-SHA256", "x-amz-date": "20130524T000000Z"},
        {"authorization": "Basic QUs6eA=="},
    ],
)
@pytest.mark.parametrize(
    "query", ["", "AccessKeyId=AK&Signature=x", "AccessKeyId=AK&Expires=x&Signature=x", "X-Amz-Signature=x"]
)
def test_malformed_signature_is_refused(headers: dict[str, str], query: str) -> None:
    assert refused(HttpRequest("GET", f"/bucket/a?{query}", headers)) in (
        "AccessDenied",
        "RequestTimeTooSkewed",
    )


def test_credentials_do_not_show_themselves() -> None:
    assert "SECRET" not in repr(KNOWN)
