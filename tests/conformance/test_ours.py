"""Behaviour of OBS that radosgw lacks: checked on the embedded server alone, with third-party clients."""

from __future__ import annotations

import asyncio
import http.client
import io
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from obs import AppendObjectContent, CompletePart, ListMultipartUploadsRequest, ObsClient, PutObjectHeader

from ma_boot.desk.rehearsal.obs_server.signatures import KeyPair
from path_mapping.localfs.source_file import by_crcmod
from tests.conformance.clients import Account, Boto, Sdk
from tests.obs import MemoryObs

CONTENT = b"0123456789" * 1000
DOMAIN = "obs.test.myhuaweicloud.com"
PLANTED = KeyPair("AKPLANTED", "SKPLANTED")
TEMPORARY = KeyPair("AKTEMPORARY", "SKPLANTED", "TOKENPLANTED")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MemoryObs]:
    with MemoryObs(tmp_path, [PLANTED, TEMPORARY], domain=DOMAIN) as server:
        server.create_bucket("bucket")
        yield server


@pytest.fixture(params=["obs", "v2"])
def sdk(request: pytest.FixtureRequest, server: MemoryObs) -> Any:
    """The SDK's own client."""
    mode = {"client_mode": "workflow"} if request.param == "obs" else {}
    return ObsClient(
        "AKPLANTED",
        "SKPLANTED",
        server=server.url,
        path_style=True,
        signature=request.param,
        max_retry_count=0,
        **mode,
    )


def connect(server: MemoryObs, signature: str, credentials: KeyPair) -> Any:
    account = Account(server.url, credentials.access_key, credentials.secret_key, credentials.token)
    return Boto(account, "bucket") if signature == "v4" else Sdk(account, "bucket", signature)


def test_the_crc64_is_in_every_answer_where_the_sdk_looks_for_it(sdk: Any) -> None:
    crc = str(by_crcmod()(CONTENT, 0))
    assert sdk.putContent("bucket", "a", CONTENT).body.crc64 == crc
    assert sdk.getObjectMetadata("bucket", "a").body.crc64 == crc
    got = sdk.getObject("bucket", "a", loadStreamInMemory=True, isAttachCrc64=True)
    assert (got.body.buffer, got.body.crc64) == (CONTENT, crc)
    upload = sdk.initiateMultipartUpload("bucket", "b").body.uploadId
    parts = []
    for number, part in enumerate((b"x" * 200_000, b"tail"), 1):
        sent = sdk.uploadPart("bucket", "b", number, upload, content=part, isAttachCrc64=True)
        assert sent.body.crc64 == str(by_crcmod()(part, 0))
        parts.append(CompletePart(number, sent.body.etag))
    done = sdk.completeMultipartUpload("bucket", "b", upload, type("Parts", (dict,), {})(parts=parts))
    assert done.body.crc64 == str(by_crcmod()(b"x" * 200_000 + b"tail", 0))


def test_a_wrong_crc64_is_refused(sdk: Any) -> None:
    assert sdk.putContent("bucket", "a", CONTENT, headers=PutObjectHeader(isAttachCrc64=True)).status == 200
    refused = sdk.putContent("bucket", "b", CONTENT, headers=PutObjectHeader(crc64="1"))
    assert (refused.status, refused.errorCode) == (400, "BadDigest")
    assert sdk.getObjectMetadata("bucket", "b").status == 404


def test_a_body_in_chunks(sdk: Any) -> None:
    assert sdk.putContent("bucket", "a", io.BytesIO(CONTENT * 20)).status == 200
    assert sdk.getObject("bucket", "a", loadStreamInMemory=True).body.buffer == CONTENT * 20


def test_appending(sdk: Any) -> None:
    for position, piece in ((0, b"one"), (3, b"two"), (6, CONTENT)):
        answer = sdk.appendObject("bucket", "log", AppendObjectContent(piece, position))
        assert (answer.status, answer.body.nextPosition) == (200, position + len(piece))
    assert sdk.getObject("bucket", "log", loadStreamInMemory=True).body.buffer == b"onetwo" + CONTENT
    head = sdk.getObjectMetadata("bucket", "log").body
    assert (head.isAppendable, head.nextPosition) == (True, 6 + len(CONTENT))
    assert head.crc64 == str(by_crcmod()(b"onetwo" + CONTENT, 0))
    assert [entry.isAppendable for entry in sdk.listObjects("bucket").body.contents] == [True]
    assert (
        sdk.appendObject("bucket", "log", AppendObjectContent(b"x", 3)).errorCode
        == "PositionNotEqualToLength"
    )
    sdk.putContent("bucket", "plain", b"x")
    assert (
        sdk.appendObject("bucket", "plain", AppendObjectContent(b"x", 1)).errorCode == "ObjectNotAppendable"
    )


@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
def test_only_the_listed_parts_are_used(server: MemoryObs, signature: str) -> None:
    client = connect(server, signature, PLANTED)
    upload = client.create_upload("a")
    client.put_part("a", upload, 1, b"one")
    etag = client.put_part("a", upload, 2, b"two").etag
    assert client.complete("a", upload, [(2, etag)]).status == 200
    assert client.get("a").content == b"two"


def test_parts_in_another_order_are_refused(server: MemoryObs) -> None:
    client = connect(server, "v4", PLANTED)  # the SDK would sort them
    upload = client.create_upload("a")
    named = [(number, client.put_part("a", upload, number, b"x" * 200_000).etag) for number in (1, 2)]
    refused = client.complete("a", upload, named[::-1])
    assert (refused.status, refused.code) == (400, "InvalidPartOrder")
    assert client.complete("a", upload, named).status == 200


def test_a_payload_other_than_the_signed_one_is_refused(server: MemoryObs) -> None:
    client = connect(server, "v4", PLANTED)

    def change(request: Any, **others: Any) -> None:
        request.body = io.BytesIO(request.body.read()[::-1])

    client._client.meta.events.register("before-send.s3.PutObject", change)
    refused = client.put("a", CONTENT)
    assert (refused.status, refused.code) == (400, "XAmzContentSHA256Mismatch")
    assert client.page().keys == []


def test_replaced_and_deleted_objects_take_no_space(server: MemoryObs) -> None:
    client = connect(server, "v2", PLANTED)

    def files() -> list[Path]:
        return list((server.root / "buckets" / "bucket").iterdir())

    for content in (b"one", b"two"):
        client.put("a", content)
    assert len(files()) == 1
    assert client.put("a", b"three", md5="c2hvcnQ=").status == 400
    assert len(files()) == 1
    client.delete("a")
    assert files() == []
    upload = client.create_upload("a")
    for content in (b"one", b"two"):
        etag = client.put_part("a", upload, 1, content).etag
    assert len(list((server.root / "uploads").iterdir())) == 1
    client.complete("a", upload, [(1, etag)])
    assert list((server.root / "uploads").iterdir()) == []


@pytest.mark.parametrize("signature", ["obs", "v2", "v4"])
def test_copying_on_condition_of_the_etag(server: MemoryObs, signature: str) -> None:
    client = connect(server, signature, PLANTED)
    etag = client.put("a", CONTENT).etag
    assert client.copy("a", "b", if_match=etag).status == 200
    assert client.copy("a", "c", if_match="0" * 32).status == 412


def test_uploads_are_listed_in_pages(sdk: Any) -> None:
    keys = ["a", "b", "b", "b", "c +%"]
    begun = [(key, sdk.initiateMultipartUpload("bucket", key).body.uploadId) for key in keys]
    uploads: list[tuple[str, str]] = []
    more = ListMultipartUploadsRequest(max_uploads=2)
    while True:
        body = sdk.listMultipartUploads("bucket", more, encoding_type="url").body
        assert len(body.upload) <= 2
        uploads += [(entry.key, entry.uploadId) for entry in body.upload]
        if not body.isTruncated:
            break
        more.key_marker, more.upload_id_marker = body.nextKeyMarker, body.nextUploadIdMarker
    assert uploads == begun
    from_b = ListMultipartUploadsRequest(key_marker="b")
    assert [entry.key for entry in sdk.listMultipartUploads("bucket", from_b).body.upload] == ["c +%"]


@pytest.mark.parametrize("parameter", ["acl", "versioning", "tagging", "website"])
def test_unsupported_operations_are_refused(sdk: Any, parameter: str) -> None:
    refused = sdk._make_get_request("bucket", pathArgs={parameter: None})
    assert (refused.status, refused.errorCode) == (501, "NotImplemented")


class TestTemporaryCredentials:
    """Keys with a security token."""

    @pytest.fixture(params=["obs", "v2", "v4"])
    def signature(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_the_token_is_needed_and_must_be_the_right_one(self, server: MemoryObs, signature: str) -> None:
        assert connect(server, signature, TEMPORARY).put("a", b"x").status == 200
        for token in (None, "another"):
            refused = connect(server, signature, KeyPair("AKTEMPORARY", "SKPLANTED", token)).put("b", b"x")
            assert (refused.status, refused.code) == (403, "InvalidToken")

    def test_a_signed_url_has_it_too(self, server: MemoryObs, signature: str) -> None:
        client = connect(server, signature, TEMPORARY)
        client.put("a", b"x")
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        for token, status in (("TOKENPLANTED", 200), ("another", 403)):
            connection.request("GET", client.signed_url("GET", "a").replace("TOKENPLANTED", token))
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
        connection.close()

    def test_it_expires_and_is_replaced(self, server: MemoryObs, signature: str) -> None:
        ended = KeyPair("AKTEMPORARY", "SKPLANTED", "TOKENPLANTED", expires=time.time() - 1)
        server.credentials[:] = [ended, KeyPair("AKTEMPORARY", "SKPLANTED", "NEXT")]
        refused = connect(server, signature, TEMPORARY).put("a", b"x")
        assert (refused.status, refused.code) == (403, "ExpiredToken")
        assert connect(server, signature, server.credentials[1]).put("a", b"x").status == 200


@pytest.fixture
def names_lead_to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolves every bucket's host name to loopback, as a hosts file would."""
    real = socket.getaddrinfo

    def resolve(host: Any, *arguments: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        return real("127.0.0.1" if name.endswith(DOMAIN) else host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.usefixtures("names_lead_to_loopback")
class TestVirtualHosted:
    """The bucket in the host name, which is OBS' default."""

    def test_the_sdk_with_its_defaults(self, server: MemoryObs) -> None:
        """An unsigned request finds out first whether the server is OBS; then it signs for OBS."""
        sdk = ObsClient("AKPLANTED", "SKPLANTED", server=f"http://{DOMAIN}:{server.port}", max_retry_count=0)
        assert sdk.createBucket("other").status == 200
        assert sdk.putContent("other", "dir/ü +%", CONTENT).status == 200
        assert sdk.getObject("other", "dir/ü +%", loadStreamInMemory=True).body.buffer == CONTENT
        assert [entry.key for entry in sdk.listObjects("other").body.contents] == ["dir/ü +%"]
        assert ("HEAD", "/?apiversion") in server.requests
        assert sorted(entry.name for entry in sdk.listBuckets().body.buckets) == ["bucket", "other"]
        assert sdk.headBucket("missing").status == 404

    @pytest.mark.parametrize("signature", ["v2", "v4"])
    def test_other_signatures(self, server: MemoryObs, signature: str) -> None:
        account = Account(f"http://{DOMAIN}:{server.port}", "AKPLANTED", "SKPLANTED")
        client: Any
        if signature == "v4":
            client = Boto(account, "bucket", style="virtual")
        else:
            client = Sdk(account, "bucket", "v2", path_style=False)
        assert client.put("dir/ü +%", CONTENT).status == 200
        assert client.get("dir/ü +%").content == CONTENT
        assert client.page("dir/").keys == ["dir/ü +%"]

    def test_opendal_signs_for_obs_as_we_verify(self, server: MemoryObs) -> None:
        """A second implementation of OBS' signature; the test sends its URLs, as it drops the port."""
        opendal = pytest.importorskip("opendal", reason="opendal has no release for this Python")
        operator = opendal.AsyncOperator(
            "obs",
            bucket="bucket",
            endpoint=f"http://{DOMAIN}",
            access_key_id="AKPLANTED",
            secret_access_key="SKPLANTED",
        )

        async def signed() -> Any:
            return await operator.presign_write("dir/ü +%", 60), await operator.presign_read("dir/ü +%", 60)

        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for request, content in zip(asyncio.run(signed()), (CONTENT, None)):
            url = urlsplit(request.url)
            assert url.hostname == f"bucket.{DOMAIN}"
            headers = {"Host": f"{url.hostname}:{server.port}", **request.headers}
            connection.request(request.method, f"{url.path}?{url.query}", content, headers)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"" if content else CONTENT)
        connection.close()


def test_list_objects_v2(server: MemoryObs) -> None:
    client = connect(server, "v4", PLANTED)
    for key in ("a", "d/1", "d/2", "ü +%&", "z"):
        client.put(key, b"x")
    pages = list(
        client._client.get_paginator("list_objects_v2").paginate(
            Bucket="bucket", Delimiter="/", PaginationConfig={"PageSize": 2}
        )
    )
    assert [entry["Key"] for page in pages for entry in page.get("Contents", [])] == ["a", "z", "ü +%&"]
    assert [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])] == ["d/"]
    assert [page["KeyCount"] for page in pages] == [2, 2]
